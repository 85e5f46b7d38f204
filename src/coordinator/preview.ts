import type { JobState } from "../sandbox/port.ts";
import type { BuildRow, PreviewRow } from "../store/port.ts";
import { frameJob, shell, stage, startJob } from "./job-stages.ts";
import type { Ports } from "./port.ts";
import { ensureSandbox } from "./sandboxes.ts";

// A preview runs in the joined tree of the volume. It is shown only after it has answered; one that dies is started
// again three times, then said to be dead.

const maxStarts = 4;
const bootTimeoutMs = 120_000;

/** Starts the preview of a delivered wave, in place of the one before. */
export async function deployPreview(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  const wave = await ports.store.waves.get({ buildId, number: waveNumber });
  const build = await ports.store.builds.get({ id: wave.buildId });
  const before = await ports.store.previews.find({ buildId: build.id });
  if (build.plan.preview === null || wave.headSha === null) return;
  if (before !== null && before.waveNumber > wave.number) return;
  const again = before !== null && before.waveNumber === wave.number && before.status !== "stopped";
  if (again && (await hasBegun(ports, before))) return;
  for (const shown of await shownPreviews(ports, build.projectId)) {
    await stopPreview(ports, shown.buildId, "a newer wave is shown");
  }
  await startPreview(ports, build, { waveNumber: wave.number, sha: wave.headSha, start: 1 });
}

/** Whoever wrote the row may have died before the job it names was started. */
const hasBegun = async (ports: Ports, { jobKey }: PreviewRow): Promise<boolean> =>
  (await ports.store.jobs.find({ key: jobKey, status: ["running", "ended"] })) !== null;

/** Those of every build of the project: they all run in its joined tree. */
async function shownPreviews(ports: Ports, projectId: string): Promise<PreviewRow[]> {
  const rows = await ports.store.previews.list({ status: ["starting", "ready"] });
  const builds = await ports.store.builds.list({ projectId, id: rows.map((row) => row.buildId) });
  return rows.filter((row) => builds.some((build) => build.id === row.buildId));
}

async function startPreview(
  ports: Ports,
  build: BuildRow,
  what: { waveNumber: number; sha: string; start: number },
): Promise<void> {
  const preview = build.plan.preview!;
  const endpoint = await ensureSandbox(ports, build);
  const setting = await frameJob({
    ports,
    endpoint,
    plan: build.plan,
    projectId: build.projectId,
    sha: what.sha,
    treePath: "repo",
    mentions: [preview.command],
  });
  const key = `preview-${build.id}-${what.waveNumber}-${what.start}-${setting.port}`;
  const row = { waveNumber: what.waveNumber, sha: what.sha, port: setting.port, starts: what.start, jobKey: key };
  await ports.store.transaction("preview-intend", async (transaction) => {
    await transaction.previews.insertIfAbsent({ buildId: build.id, status: "starting", ...row });
    await transaction.previews.update({ buildId: build.id }, { status: "starting", reason: null, ...row });
  });
  const boot = stage({
    name: "preview",
    argv: shell(preview.command),
    env: setting.env,
    cwd: "repo",
    timeoutMs: bootTimeoutMs,
  });
  const ready = { http: { port: setting.port, path: preview.healthPath } };
  await startJob(ports, endpoint, {
    key,
    build,
    owner: { kind: "preview", id: build.id, fence: what.start },
    spec: {
      stages: [...setting.stages, { ...boot, background: true, ready }],
      writable: setting.writable,
      labels: { build: build.id, preview: String(what.waveNumber) },
    },
  });
}

/** The preview's row follows its job: ready once it answered. */
export async function previewProgressed(ports: Ports, buildId: string, jobKey: string, state: JobState): Promise<void> {
  if (state.status !== "running" || state.stages.at(-1)?.status !== "ready") return;
  await ports.store.previews.update({ buildId, jobKey, status: "starting" }, { status: "ready" });
}

/** The preview's job ended: stopped by us, started again, or dead. */
export async function previewEnded(ports: Ports, buildId: string, jobKey: string, state: JobState): Promise<void> {
  const row = await ports.store.previews.find({ buildId, jobKey });
  if (row === null || row.status === "stopped" || row.status === "dead") return;
  const build = await ports.store.builds.get({ id: buildId });
  if (state.status === "cancelled") {
    await ports.store.previews.update({ buildId, jobKey }, { status: "stopped", reason: state.cancelReason });
    return;
  }
  if (row.starts >= maxStarts) {
    await ports.store.previews.update({ buildId, jobKey }, { status: "dead", reason: whyDead(row, state) });
    return;
  }
  await startPreview(ports, build, { waveNumber: row.waveNumber, sha: row.sha, start: row.starts + 1 });
}

function whyDead(row: PreviewRow, state: JobState): string {
  const stage = state.stages.findLast((candidate) => candidate.status === "failed");
  const last = stage === undefined ? state.status : (stage.error ?? `exit ${stage.exitCode ?? stage.signal}`);
  return `it died ${row.starts} times, last: ${stage?.name ?? "job"} ${last}`;
}

/** Stops a build's preview; safe when there is none. */
export async function stopPreview(ports: Ports, buildId: string, reason: string): Promise<void> {
  const row = await ports.store.previews.find({ buildId });
  if (row === null || row.status === "stopped" || row.status === "dead") return;
  const build = await ports.store.builds.get({ id: buildId });
  const { guest } = await ensureSandbox(ports, build);
  await guest.cancelJob(row.jobKey, { reason, graceMs: 2000 });
  await ports.store.previews.update({ buildId, jobKey: row.jobKey }, { status: "stopped", reason });
}
