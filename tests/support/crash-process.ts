import { existsSync } from "node:fs";
import { join } from "node:path";
import { Pool } from "pg";
import { type App, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { resumeBuild } from "../../src/coordinator/build/resume-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { editPlan } from "../../src/coordinator/plan/edit-plan.ts";
import { stopPreview } from "../../src/coordinator/preview/preview.ts";
import { approveWave, rejectWave } from "../../src/coordinator/wave/decide-wave.ts";
import { WavesmithError } from "../../src/domain/errors.ts";
import type { EventName } from "../../src/domain/events/events.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import { removeSandbox, stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { createDeath, say } from "./crash-death.ts";
import { crashPlan, editedCrashPlan } from "./crash-plan.ts";
import type { CrashInput } from "./crash-runs.ts";
import { killGuests } from "./kill-guests.ts";

// One process of a build that covers everything. It starts or continues the build, answers for the
// person, causes failures of its own, and kills itself at the first crash point of those it is
// given. It learns what to do next only from the database, so that any process can take over from
// any other. Prints one JSON object per line.

export interface CrashProcessInput extends CrashInput {
  /** `sandbox`: the sandbox's guest is killed at each of the points, and this process lives on. */
  readonly victim: "process" | "sandbox";
}

/**
 * A connection beside the app's, because no part of the app reads the engine's rows, and time
 * passes without a crash point.
 */
const database = new Pool({ connectionString: process.env.DATABASE_URL, max: 1 });

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function main({ victim, ...input }: CrashProcessInput): Promise<void> {
  const { project } = input;
  const projectId = projectIdFor("default", project);
  const eventId = `project/build.requested:${project}:0`;
  const buildId = buildIdForEvent(eventId);
  const death = createDeath(input, victim === "sandbox" ? () => killGuests(projectId) : undefined);
  let misfortune: (point: string) => Promise<void> = async () => undefined;
  const app = await createApp({
    config: loadConfig(process.env),
    warn: (message) => say({ type: "warning", message }),
    crashPoint: (point) => {
      death.reach(point);
      return misfortune(point);
    },
  });
  misfortune = misfortunes(app, buildId);
  process.once("SIGTERM", () => void standing(app, buildId).then((message) => say({ type: "warning", message })));
  await app.start(new Set([projectId]));
  if ((await app.store.builds.find({ id: buildId })) === null) {
    const data = { projectId, project, plan: crashPlan };
    await app.send({ name: "project/build.requested", id: eventId, data });
  }
  let build: BuildRow | null = null;
  for (;;) {
    build = await app.store.builds.find({ id: buildId });
    if (build !== null && (await isOver(app, build))) break;
    if (build !== null) await steer(app, build).catch(unlessTooLate);
    await pause(25);
  }
  await stopAll(app, build);
  await app.reconcile(); // also sends the events of stopping
  await app.close();
  await database.end();
  say({ type: "ended", status: build.status, reason: build.reason, fired: death.fired() });
}

/** Stops the preview first, because its watcher would start it again, and the sandbox with it. */
async function stopAll(app: App, { id: buildId, projectId }: BuildRow): Promise<void> {
  await stopPreview(app.ports, buildId, "it is enough");
  while ((await app.store.jobs.find({ buildId, status: "running" })) !== null) await pause(25);
  const sandbox = await app.store.sandboxes.find({ projectId, state: ["wanted", "running", "stopped", "lost"] });
  if (sandbox === null) return;
  await stopSandbox(app.ports, sandbox);
  await removeSandbox(app.ports, sandbox, { volume: false });
}

/** Ignores a conflict: the state may have changed since the person looked. */
function unlessTooLate(error: unknown): void {
  if (!(error instanceof WavesmithError) || error.code !== "conflict") throw error;
}

const told = async (app: App, buildId: string, name: EventName): Promise<number> =>
  (await app.store.outbox.list({ buildId, name })).length;

/**
 * The build was completed, rolled back, completed again, edited and completed once more, and its
 * functions have done their last steps.
 */
async function isOver(app: App, build: BuildRow): Promise<boolean> {
  if (build.status !== "completed" || !isEdited(build)) return false;
  const jobs = await app.store.jobs.list({ buildId: build.id, ownerKind: ["attempt", "gate"], status: ["running"] });
  const preview = await app.store.previews.find({ buildId: build.id });
  if (jobs.length > 0 || !["ready", "stopped"].includes(preview?.status ?? "")) return false;
  const open = await database.query("select from engine.runs where status = 'running'");
  return open.rowCount === 0;
}

/**
 * Describes what a stuck build is waiting for, when SIGTERM asks for it before the process is
 * killed.
 */
async function standing({ store }: App, buildId: string): Promise<string> {
  const open = await database.query("select function_id from engine.runs where status = 'running'");
  const { status, reason } = await store.builds.get({ id: buildId });
  const attempts = await store.attempts.list({ buildId, status: ["requested", "starting", "running", "finishing"] });
  return JSON.stringify({
    build: { status, reason },
    attempts: attempts.map(({ treePath, status }) => ({ treePath, status })),
    gates: (await store.gateRuns.list({ buildId, status: ["requested", "running"] })).map(({ gate }) => gate),
    jobs: (await store.jobs.list({ buildId, status: ["intended", "running"] })).map(({ key, status }) => [key, status]),
    preview: await store.previews.find({ buildId }),
    functions: open.rows.map((row: { function_id: string }) => row.function_id),
  });
}

const isEdited = ({ plan }: BuildRow): boolean => plan.tasks.some((task) => task.key === "late");

/** Whether the preview of the last wave answers, or is known to be dead. */
async function isPreviewSettled({ store }: App, buildId: string): Promise<boolean> {
  const last = await store.waves.find({ buildId }, { by: "number", descending: true });
  const preview = await store.previews.find({ buildId, waveNumber: last!.number, status: ["ready", "dead"] });
  return preview !== null;
}

async function steer(app: App, build: BuildRow): Promise<void> {
  const { ports, store } = app;
  const { id, status } = build;
  if (status === "failed" || status === "cancelled") return retryBuild(ports, id);
  if (status === "running") {
    const slow = await store.tasks.find({ buildId: id, key: "slow" });
    const working = await store.attempts.find({ taskId: slow!.id, number: 1, status: "running" });
    if (working !== null) await requestCancel(ports, id, "too slow");
  }
  if (status === "waiting" && !(await resumeBuild(ports, id))) {
    const isRejected = (await store.approvals.find({ buildId: id, decision: "rejected" })) !== null;
    if (isRejected) await approveWave(ports, id, { by: null });
    else await rejectWave(ports, id, { by: null, reason: "say why" });
    return;
  }
  if (status !== "completed" || !(await isPreviewSettled(app, id))) return;
  if ((await told(app, id, "project/build.rolled-back")) === 0) return rollbackBuild(ports, id, 1);
  if (isEdited(build)) return;
  const { plan } = parsePlanValue(editedCrashPlan, { baseDir: null, env: {} });
  await editPlan(ports, id, plan!);
}

/**
 * Whether the tree that is being kept may be a settled attempt's, about to be removed; if keeping
 * it failed, it would stay.
 */
async function isClosing({ store, config }: App, buildId: string): Promise<boolean> {
  const { projectId } = await store.builds.get({ id: buildId });
  const settled = await store.attempts.list({ buildId, status: "settled" });
  return settled.some(({ treePath }) => existsSync(join(config.dataDir, "volumes", projectId, treePath)));
}

/** The failures that happen once in the life of the build, in whichever process drives it. */
function misfortunes(app: App, buildId: string): (point: string) => Promise<void> {
  const { store, ports } = app;
  const refuse = (what: string): never => {
    throw new WavesmithError("conflict", what);
  };
  const failedOf = async (reason: string): Promise<boolean> =>
    (await store.outbox.list({ buildId, name: "project/build.failed" })).some(({ data }) =>
      String(data.reason).includes(reason),
    );
  const acts: Record<string, () => Promise<unknown>> = {
    "store-build.after-commit": () => app.reconcile(),
    "prepare-build.after-commit": async () => {
      if ((await store.builds.get({ id: buildId })).epoch > 0) return;
      await database.query("update builds set moved_at = to_timestamp(0) where id = $1", [buildId]);
      await app.reconcile();
    },
    "workspace.openTree.before": async () => {
      if ((await told(app, buildId, "project/build.cancel-requested")) > 0) return;
      await requestCancel(ports, buildId, "not yet");
      await app.reconcile();
    },
    "workspace.keepTree.before": async () => {
      const lost = await store.attempts.find({ buildId, outcome: "lost" });
      if (lost === null && !(await isClosing(app, buildId))) refuse("the work cannot be kept");
    },
    "claim-gate.after-commit": async () => {
      const runs = await store.gateRuns.list({ buildId });
      if (runs.every((run) => run.losses === 0)) refuse("the gate cannot be started");
    },
    "workspace.join.before": async () => {
      if (!(await failedOf("cannot be joined"))) refuse("it cannot be joined");
    },
    "workspace.moveRef.main.before": async () => {
      if (!(await failedOf("cannot be delivered"))) refuse("it cannot be delivered");
    },
    "preview-intend.before-commit": async () => {
      const previews = await store.previews.list({ buildId });
      if (previews.length === 0) refuse("the preview cannot be started");
    },
    "join-wave.after-commit": async () => {
      const [build, late] = [await store.builds.get({ id: buildId }), await failedOf("time limit")];
      if (late || build.headSha === build.baseSha) return;
      await database.query("update builds set deadline_at = to_timestamp(0) where id = $1", [buildId]);
      await app.reconcile();
    },
  };
  let depth = 0;
  return async (point) => {
    const act = acts[point];
    if (act === undefined || depth > 0) return;
    depth += 1;
    await act().finally(() => {
      depth -= 1;
    });
  };
}

await main(JSON.parse(process.argv[2]!) as CrashProcessInput);
