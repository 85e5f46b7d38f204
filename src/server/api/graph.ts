import { z } from "@hono/zod-openapi";
import { spentByTask, spentInWave, spentJson } from "../../api/spending.ts";
import type { BuildView, WaveView } from "../../coordinator/build/build-view.ts";
import { createTaskGraph } from "../../domain/plan/task-graph.ts";
import { planWaves } from "../../domain/plan/wave-planner.ts";
import { moment, spentReply } from "./build-replies.ts";
import { readBuild } from "./builds.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const workReply = z
  .object({
    id: z.string(),
    kind: z.string(),
    /** A task's attempt. */
    task: z.string().nullable(),
    label: z.string(),
    number: z.number(),
    status: z.string(),
    outcome: z.string().nullable(),
    reason: z.string().nullable(),
    lastAction: z.string().nullable(),
    createdAt: z.string(),
    startedAt: moment,
    endedAt: moment,
  })
  .openapi("Work");
const graphWaveReply = z
  .object({
    number: z.number(),
    /** `planned` for a wave that has not begun. */
    status: z.string(),
    tasks: z.array(z.string()),
    reason: z.string().nullable(),
    fixRounds: z.number(),
    base: z.string().nullable(),
    head: z.string().nullable(),
    createdAt: moment,
    endedAt: moment,
    // `nullable()` would change the named schema.
    spent: z.union([spentReply, z.null()]),
    work: z.array(workReply),
  })
  .openapi("GraphWave");
const graphTaskReply = z
  .object({
    id: z.string(),
    title: z.string(),
    agent: z.string(),
    status: z.string(),
    dependsOn: z.array(z.string()),
    wave: z.number(),
    spent: spentReply,
  })
  .openapi("GraphTask");
const graphReply = z
  .object({ waves: z.array(graphWaveReply), tasks: z.array(graphTaskReply), criticalPath: z.array(z.string()) })
  .openapi("BuildGraph");

/** A build as its waves show it: what was, what is and what will be. */
export function graphEndpoints({ app }: ApiContext): Endpoint[] {
  return [
    endpoint("get /builds/{id}/graph", {
      summary: "Show a build's tasks by wave, also of waves to come, with the times of its attempts and gate runs",
      params: idParams,
      reply: graphReply,
      handle: async ({ params }) => ({ body: graphOf(await readBuild(app, params.id)) }),
    }),
  ];
}

function graphOf(view: BuildView) {
  const planned = plannedWaves(view);
  const waveOf = new Map(planned.flatMap(({ number, tasks }) => tasks.map((key) => [key, number])));
  return {
    waves: [...view.waves.map((wave) => shownWave(view, wave)), ...planned],
    tasks: view.tasks
      .filter(({ status }) => status !== "removed")
      .map(({ key, definition: { title, dependsOn }, agent, status, waveNumber }) => ({
        ...{ id: key, title, agent, status, dependsOn },
        wave: waveOf.get(key) ?? waveNumber ?? 0,
        spent: spentJson(spentByTask(view, key)),
      })),
    criticalPath: createTaskGraph(view.build.plan.tasks).criticalPath(),
  };
}

/** The waves that are likely to come: conflicts and failures can change them. */
function plannedWaves({ build, tasks, waves }: BuildView) {
  const coming = new Set(tasks.filter(({ status }) => status === "pending").map(({ key }) => key));
  const rest = build.plan.tasks
    .filter(({ key }) => coming.has(key))
    .map((task) => ({ ...task, dependsOn: task.dependsOn.filter((key) => coming.has(key)) }));
  const before = waves.at(-1)?.number ?? 0;
  return planWaves({ ...build.plan, tasks: rest }).map(({ number, tasks: keys }) => ({
    number: before + number,
    status: "planned",
    tasks: keys,
    fixRounds: 0,
    work: [],
    ...{ reason: null, base: null, head: null, createdAt: null, endedAt: null, spent: null },
  }));
}

function shownWave(view: BuildView, wave: WaveView) {
  const { number, status, taskKeys, reason, fixRounds, baseSha, headSha, createdAt, endedAt, attempts, gates } = wave;
  const tried = attempts.map((attempt) => ({
    ...{ id: attempt.id, kind: attempt.kind, task: attempt.taskKey, label: attempt.taskKey ?? attempt.kind },
    ...{ number: attempt.number, status: attempt.status, outcome: attempt.outcome, reason: attempt.reason },
    ...{ lastAction: attempt.lastAction, createdAt: attempt.createdAt },
    ...{ startedAt: attempt.startedAt, endedAt: attempt.endedAt },
  }));
  const judged = gates.map((gate) => ({
    ...{ id: gate.id, kind: "gate", task: null, label: gate.gate, number: gate.round, status: gate.status },
    ...{ outcome: gate.verdict, reason: gate.reason, lastAction: null },
    ...{ createdAt: gate.createdAt, startedAt: gate.createdAt, endedAt: gate.endedAt },
  }));
  return {
    ...{ number, status, tasks: [...taskKeys], reason, fixRounds, base: baseSha, head: headSha, createdAt, endedAt },
    spent: spentJson(spentInWave(view, wave)),
    work: [...tried, ...judged],
  };
}
