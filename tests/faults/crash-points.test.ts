import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { crashPoints } from "../../src/coordinator/crash-points.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { engineCrashPoints } from "../../src/engine/crash-points.ts";
import { createStore } from "../../src/store/store.ts";
import { checkDependencies, checkParallel, checkWaves, gitIn, readEnded, readTree } from "../support/build-checks.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { checkRows, leftOn, locksIn } from "../support/crash-checks.ts";
import { crashPlanTree } from "../support/crash-plan.ts";
import type { CrashProcessInput } from "../support/crash-process.ts";
import { asked, type CrashPlace, crashCases, dieAt, processesOf } from "../support/crash-runs.ts";

// Kills a process (SIGKILL) at a crash point, and another one continues; or kills the sandbox, and
// the same process continues. One build dies several times. tests/support/crash-runs.ts says how to
// try points by hand.

const program = await bundledProgram("crash-process");
/**
 * Points that this build does not have to pass: those of the lifecycle of sandboxes
 * (lifecycle-crashes.test.ts), of model calls, of the critic's agent and of shared trees
 * (critic-crashes.test.ts), of other gates' agents (gate-agent-crashes.test.ts), of requests that
 * an Inngest server lost, of previews that wake or are requested, of schedules, of forges and
 * webhooks (forge-crashes.test.ts), of an undone rollback, of the API.
 */
const besideBuild =
  /^(engine\.cron|ask-second-look|ask-gate-agent|ask-pull-request|forge|change-file|limit-tenant|make-project|create-key|tell-task|add-comment|preview-request|preview-wake|request-build|resend-request|run-added-checks|snapshots|workspace\.restorePaths|modelCalls\.update|reserve-model-call|settle-model-call|settle-schedule|undo-rollback|driver\.(pack|restore)|start-held-back|settle-check|take-(closed|delivery|finding|review|thread)|sandbox-(idle|lost|restored?))\./;
const allPoints: readonly string[] = [...crashPoints, ...engineCrashPoints];
const everyPoint = allPoints.filter((point) => !besideBuild.test(point));
/** Calls during which a sandbox may die. */
const callsOfSandbox = everyPoint.filter((point) => /^(guest|driver|workspace)\.|^keep\./.test(point));

type Victim = CrashProcessInput["victim"];
/**
 * How many points one build dies at, because a task whose sandbox is lost is repeated at most three
 * times.
 */
const perBuild: Readonly<Record<Victim, number>> = { process: 10, sandbox: 2 };

const cases = {
  process: crashCases(everyPoint, perBuild.process),
  sandbox: crashCases(callsOfSandbox, perBuild.sandbox),
};
const named = new Set([...cases.process, ...cases.sandbox].map((one) => one.named));
console.info(`crash points of this run: ${asked === "" ? [...named].join(", ") : asked}`);

it("has crash points of these names only", () => {
  const known = new Set(allPoints);
  expect(asked.split(",").filter((name) => !["", "all"].includes(name) && !known.has(name))).toEqual([]);
});

describe("a process that is killed at a crash point", () => {
  it("reaches each of the listed points", { timeout: 900_000 }, async () => {
    expect(await atAll([], "process")).toEqual([...everyPoint].sort());
  });

  it.each(cases.process)(
    "is continued by another to the same end: $named",
    { timeout: 1_800_000 },
    async ({ points }) => {
      await atAll(points, "process");
    },
  );
});

describe("a sandbox that is killed at a crash point", () => {
  it.each(cases.sandbox)(
    "is made again, and the build ends the same: $named",
    { timeout: 900_000 },
    async ({ points }) => {
      await atAll(points, "sandbox");
    },
  );
});

/**
 * Runs one build that dies at all of these points; resolves with the required ones that it reached.
 */
async function atAll(points: readonly string[], victim: Victim): Promise<string[]> {
  const test = `tests/faults/crash-points.test.ts -t "a ${victim} that is killed"`;
  const fired = await dieAt(points, { program, more: { victim }, test, check: checkEnd });
  expect(fired.filter((point) => !allPoints.includes(point))).toEqual([]);
  return fired.filter((point) => everyPoint.includes(point));
}

/** The state that every build must end in, wherever it was killed. */
async function checkEnd(place: CrashPlace): Promise<void> {
  const { dataDir, project, database } = place;
  const projectId = projectIdFor("default", project);
  const buildId = buildIdForEvent(`project/build.requested:${project}:0`);
  const repository = join(dataDir, "repositories", `${projectId}.git`);
  const store = createStore(database.pool);
  const ended = await readEnded(store, repository, buildId);
  expect(Object.fromEntries(readTree(repository, "main"))).toEqual(crashPlanTree);
  expect(gitIn(repository, ["rev-parse", "main"]).toString().trim()).toBe(ended.build.headSha);
  expect(gitIn(repository, ["fsck", "--strict", "--no-dangling", "--no-progress"]).toString().trim()).toBe("");
  for (const check of [checkDependencies, checkWaves, checkParallel]) check(ended);
  for (const attempt of ended.attempts) expect(attempt.status, attempt.ref).toBe("settled");
  expect(ended.tasks.map((task) => task.status)).toEqual(ended.tasks.map(() => "completed"));
  for (const wave of ended.waves) if (wave.status === "passed") expect(wave.deliveredAt).not.toBeNull();
  await checkRows(database, store);
  await expect.poll(() => processesOf(dataDir).map(({ text }) => text), { timeout: 20_000 }).toEqual([]);
  expect(leftOn(join(dataDir, "volumes", projectId), buildId)).toEqual([]);
  expect(locksIn(repository)).toEqual([]);
}
