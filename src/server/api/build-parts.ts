import { z } from "@hono/zod-openapi";
import { diffSpan, maxDiffBytes } from "../../api/diff-span.ts";
import { editablePlanText } from "../../api/editable-plan.ts";
import { openQuestions } from "../../api/questions.ts";
import { currentWave, phaseOf, waveOfWaitingPlan } from "../../api/waiting.ts";
import type { BuildView, GateView } from "../../coordinator/build/build-view.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { getKnown } from "../../domain/known.ts";
import { gateRunReply, inboxReply, planReply } from "./build-replies.ts";
import { getBuild, readBuild, type ViewedBuild } from "./builds.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const diffQuery = z.strictObject({
  task: z.string().max(200).optional(),
  wave: z.coerce.number().int().min(1).max(1_000_000).optional(),
});

const changesReply = z
  .looseObject({
    projectId: z.string(),
    from: z.string(),
    to: z.string(),
    files: z.array(
      z.looseObject({
        path: z.string(),
        from: z.string().nullable(),
        addedLines: z.number().nullable(),
        deletedLines: z.number().nullable(),
        binary: z.boolean(),
      }),
    ),
  })
  .openapi("Changes");

function gateRunJson(wave: number, run: GateView) {
  const { id, gate, round, sha, status, verdict, reason, evidence, findings, createdAt, endedAt } = run;
  return {
    ...{ id, wave, gate, round, sha, status, verdict, reason, evidence, createdAt, endedAt },
    findings: findings.map(({ rule, severity, message, file, line }) => ({ rule, severity, message, file, line })),
  };
}

/** The parts of a build besides its state. */
export function buildPartEndpoints({ app }: ApiContext): Endpoint[] {
  const { workspace } = app.ports;
  return [
    endpoint("get /builds/{id}/gates", {
      summary: "Show the gate runs of a build, with evidence and findings",
      params: idParams,
      reply: z.looseObject({ items: z.array(gateRunReply) }),
      async handle({ params }) {
        const { waves } = await readBuild(app, params.id);
        return { body: { items: waves.flatMap(({ number, gates }) => gates.map((run) => gateRunJson(number, run))) } };
      },
    }),
    endpoint("get /builds/{id}/plan", {
      summary: "Show the plan that a build follows",
      params: idParams,
      reply: planReply,
      handle: async ({ params }) => ({ body: (await getBuild(app, params.id)).plan }),
    }),
    endpoint("get /builds/{id}/plan/text", {
      summary: "Show the plan that a build follows as a plan file, to be edited and sent back",
      params: idParams,
      media: "application/yaml",
      reply: z.string(),
      async handle({ params }) {
        const { plan } = await getBuild(app, params.id);
        return new Response(editablePlanText(plan), {
          headers: { "content-type": "application/yaml; charset=utf-8" },
        });
      },
    }),
    endpoint("get /builds/{id}/changes", {
      summary: "List the files that a build, one of its tasks or one of its waves changed",
      params: idParams,
      query: diffQuery,
      reply: changesReply,
      async handle({ params, query }) {
        const { id } = await getBuild(app, params.id);
        const span = await spanOf(app, id, query);
        return { body: { ...span, files: await workspace.changedFiles(span.projectId, span.from, span.to) } };
      },
    }),
    endpoint("get /builds/{id}/diff", {
      summary: "Show what a build, one of its tasks or one of its waves changed",
      params: idParams,
      query: diffQuery,
      media: "text/x-diff",
      reply: z.string(),
      async handle({ params, query }) {
        const { id } = await getBuild(app, params.id);
        const { projectId, from, to } = await spanOf(app, id, query);
        const text = await workspace.diff(projectId, from, to, { maxBytes: maxDiffBytes });
        return new Response(text, { headers: { "content-type": "text/x-diff; charset=utf-8" } });
      },
    }),
  ];
}

async function spanOf({ ports }: ApiContext["app"], id: string, query: z.infer<typeof diffQuery>) {
  if (query.task !== undefined && query.wave !== undefined)
    throw new WavesmithError("usage", "a diff is of a task or of a wave, not of both");
  return diffSpan(ports.store, id, query);
}

/** The items that wait for a person, in one build or in all. */
export function waitingEndpoints({ app }: ApiContext): Endpoint[] {
  const { store, clock } = app.ports;
  return [
    endpoint("get /builds/{id}/questions", {
      summary: "List what agents of a build asked a person",
      params: idParams,
      reply: z.looseObject({ items: z.array(z.looseObject({ id: z.number(), text: z.string() })) }),
      async handle({ params }) {
        const view = await readBuild(app, params.id);
        const open = new Set(openQuestions(view, clock.now()).map(({ id }) => id));
        return {
          body: {
            items: view.questions.map(({ id, role, text, reason, options, askedAt, deadlineAt, ...end }) => ({
              ...{ id, role, text, reason, options, askedAt, deadlineAt, isOpen: open.has(id) },
              ...{ answer: end.answer, answeredBy: end.answeredBy, answeredAt: end.answeredAt },
            })),
          },
        };
      },
    }),
    endpoint("get /inbox", {
      summary: "List what waits for a person, in every build",
      reply: z.looseObject({ items: z.array(inboxReply) }),
      async handle() {
        const waiting = await store.builds.list({ status: "waiting" }, { by: "position", limit: 200 });
        const failed = await store.builds.list({ status: "failed" }, { by: "position", descending: true, limit: 20 });
        const questions = await store.questions.list({ answer: null, closedAt: null }, { by: "id", limit: 200 });
        const now = clock.now();
        const open = questions.filter(({ deadlineAt }) => deadlineAt > now);
        const items = [
          ...waiting.map(({ id, reason, movedAt }) => ({ kind: "build", buildId: id, reason, since: movedAt })),
          ...open.map(({ id, buildId, text, askedAt, deadlineAt }) => ({
            ...{ kind: "question", buildId, question: id, text, since: askedAt, deadlineAt },
          })),
          ...(await latestOf(store, failed)).map(({ id, reason, movedAt }) => ({
            ...{ kind: "failed", buildId: id, reason, since: movedAt },
          })),
        ];
        const views = new Map<string, BuildView>();
        for (const { buildId } of items) if (!views.has(buildId)) views.set(buildId, await readBuild(app, buildId));
        return { body: { items: items.map((item) => ({ ...item, ...placeOf(getKnown(views, item.buildId)) })) } };
      },
    }),
  ];
}

/** Of failed builds, those that no later build of their project has replaced. */
async function latestOf(
  { builds }: Pick<ApiContext["app"]["ports"]["store"], "builds">,
  failed: readonly ViewedBuild[],
) {
  const latest: ViewedBuild[] = [];
  for (const build of failed) {
    const { projectId } = build;
    const last = await builds.find({ projectId }, { by: "position", descending: true });
    if (last?.id === build.id) latest.push(build);
  }
  return latest;
}

/** Where in its build an item waits, and for which decision. */
function placeOf(view: BuildView) {
  const wave = currentWave(view);
  const isAsked = view.build.status === "waiting" && wave?.status === "waiting";
  const decision = !isAsked ? null : waveOfWaitingPlan(view) === null ? "wave" : "plan";
  return {
    project: view.project,
    phase: phaseOf(view),
    wave: wave?.number ?? null,
    decision,
    failedGate: failedGateOf(wave),
  };
}

/** The gate that blocks a wave, with the first thing it found; null if none does. */
function failedGateOf(wave: BuildView["waves"][number] | null) {
  const run = wave?.gates.at(-1);
  if (run === undefined || run.verdict !== "failed") return null;
  return { id: run.id, gate: run.gate, finding: run.findings[0]?.message ?? run.reason };
}
