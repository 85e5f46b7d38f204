import type { GuestClient, JobState } from "../sandbox/port.ts";
import type { BuildRow, PreviewRow, StoreTransaction } from "../store/port.ts";
import { emitFor } from "./advance.ts";
import { frameJob } from "./frame-job.ts";
import { maskOf } from "./job-results.ts";
import { shell, stage, startJob } from "./job-stages.ts";
import type { Ports } from "./port.ts";
import { ensureSandbox } from "./sandboxes.ts";

// A preview runs in the joined tree of the volume. It is shown only after it has answered; one that dies is started
// again three times, then said to be dead. That it is to be started again is an event of the commit that ends its job,
// so that it is, although whoever saw it die dies as well.

const maxStarts = 4;
const bootTimeoutMs = 120_000;

/**
 * Starts the preview of a delivered wave, in place of the one before, or again when it died. Safe to call twice; one
 * that was stopped meanwhile stays so.
 */
export async function deployPreview(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  const wave = await ports.store.waves.get({ buildId, number: waveNumber });
  const build = await ports.store.builds.get({ id: wave.buildId });
  const before = await ports.store.previews.find({ buildId: build.id });
  if (build.plan.preview === null || wave.headSha === null) return;
  if (before !== null && before.waveNumber > wave.number) return;
  const own = before?.waveNumber === wave.number ? before : null;
  const start = own === null ? 1 : await nextStart(ports, own);
  if (start === null) {
    // It may have been stopped between the row and the job, by somebody who found no job to end.
    if (own?.status === "stopped") await dropPreview(ports, build.id, own.jobKey, own.reason ?? "stopped");
    return;
  }
  for (const shown of await shownPreviews(ports, build.projectId)) {
    if (shown.buildId !== own?.buildId) await stopPreview(ports, shown.buildId, "a newer wave is shown");
  }
  const replaced = own ?? (await ports.store.previews.find({ buildId: build.id }));
  await startPreview(ports, build, { waveNumber: wave.number, sha: wave.headSha, start, replaced });
}

/** Which start of this preview is due; null when none is. Whoever wrote its row may have died before its job began. */
async function nextStart(ports: Ports, { status, jobKey, starts }: PreviewRow): Promise<number | null> {
  if (status === "dead" || status === "stopped") return null;
  const job = await ports.store.jobs.find({ key: jobKey });
  if (job?.status === "running") return null;
  return job?.status === "ended" ? starts + 1 : starts;
}

/** Those of every build of the project: they all run in its joined tree. */
async function shownPreviews(ports: Ports, projectId: string): Promise<PreviewRow[]> {
  const rows = await ports.store.previews.list({ status: ["starting", "ready"] });
  const builds = await ports.store.builds.list({ projectId, id: rows.map((row) => row.buildId) });
  return rows.filter((row) => builds.some((build) => build.id === row.buildId));
}

async function startPreview(
  ports: Ports,
  build: BuildRow,
  what: { waveNumber: number; sha: string; start: number; replaced: PreviewRow | null },
): Promise<void> {
  const preview = build.plan.preview!;
  const endpoint = await ensureSandbox(ports, build);
  const { waveNumber, sha, start, replaced } = what;
  if (replaced !== null) await endPreviewJob(ports, endpoint.guest, replaced.jobKey, "it is started again");
  const setting = await frameJob({
    ports,
    endpoint,
    plan: build.plan,
    projectId: build.projectId,
    sha,
    treePath: "repo",
    mentions: [preview.command],
  });
  // A new one each time: that of a start which was given up never starts.
  const key = `preview-${build.id}-${waveNumber}-${ports.ids("job")}`;
  const row = { waveNumber, sha, port: setting.port, starts: start, jobKey: key };
  if (!(await intendPreview(ports, replaced, { buildId: build.id, ...row }))) return;
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
    owner: { kind: "preview", id: build.id, fence: start },
    spec: {
      stages: [...setting.stages, { ...boot, background: true, ready }],
      ...setting.reach,
      labels: { build: build.id, preview: String(waveNumber) },
    },
  });
}

/**
 * Writes down which job is the preview. False when meanwhile its wave was taken back, its build cancelled, or the row it
 * replaces changed: then somebody else has started or stopped it.
 */
async function intendPreview(
  ports: Ports,
  replaced: PreviewRow | null,
  row: Omit<PreviewRow, "status" | "reason">,
): Promise<boolean> {
  const { buildId, waveNumber } = row;
  return ports.store.transaction("preview-intend", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await transaction.waves.get({ buildId, number: waveNumber });
    if (wave.status !== "passed" || build.status === "cancelling" || build.status === "cancelled") {
      const stopped = { status: "stopped", reason: `wave ${waveNumber} is not shown any more` } as const;
      await transaction.previews.update({ buildId, waveNumber, status: ["starting", "ready"] }, stopped);
      return false;
    }
    const present = await transaction.previews.find({ buildId });
    if (present?.jobKey !== replaced?.jobKey || present?.status !== replaced?.status) return false;
    await transaction.previews.insertIfAbsent({ ...row, status: "starting" });
    await transaction.previews.update({ buildId }, { ...row, status: "starting", reason: null });
    return true;
  });
}

/** Ends a preview's job. Only a running one has a watcher that tells its end: of one that was just intended it is told here. */
async function endPreviewJob(ports: Ports, guest: GuestClient, key: string, reason: string): Promise<void> {
  const job = await ports.store.jobs.find({ key });
  if (job?.status === "ended") return;
  const state = await guest.cancelJob(key, { reason, graceMs: 2000 });
  const ended = { status: "ended", state, endedAt: ports.clock.now() } as const;
  await ports.store.jobs.update({ key, status: "intended" }, ended);
}

/** The preview's row follows its job: ready once it answered. A job that the row says is not shown any more is ended. */
export async function previewProgressed(
  ports: Ports,
  guest: GuestClient,
  { buildId, jobKey }: { buildId: string; jobKey: string },
  state: JobState,
): Promise<void> {
  if (state.status !== "running") return;
  const row = await ports.store.previews.find({ buildId });
  if (row?.jobKey !== jobKey || row.status === "stopped")
    await endPreviewJob(ports, guest, jobKey, row?.reason ?? "it is not shown any more");
  else if (state.stages.at(-1)?.status === "ready")
    await ports.store.previews.update({ buildId, jobKey, status: "starting" }, { status: "ready" });
}

/** The preview's job ended: stopped by us, to be started again, or dead. Belongs in the commit that ends the job. */
export async function settlePreview(
  transaction: StoreTransaction,
  build: BuildRow,
  jobKey: string,
  state: JobState,
): Promise<void> {
  const row = await transaction.previews.find({ buildId: build.id, jobKey, status: ["starting", "ready"] });
  if (row === null) return;
  const set = (patch: Partial<PreviewRow>) => transaction.previews.update({ buildId: build.id, jobKey }, patch);
  if (state.status === "cancelled") {
    await set({ status: "stopped", reason: state.cancelReason });
    return;
  }
  if (row.starts >= maxStarts) {
    await set({ status: "dead", reason: whyDead(row, state) });
    return;
  }
  await set({ status: "starting" });
  const { waveNumber, sha } = row;
  await emitFor(transaction, build, "agent/preview.deploy", jobKey, row.starts, { waveNumber, sha });
}

function whyDead(row: PreviewRow, state: JobState): string {
  const stage = state.stages.findLast((candidate) => candidate.status === "failed");
  const end = stage?.exitCode ?? stage?.signal ?? null;
  const last = stage === undefined ? `its job was ${state.status}` : (stage.error ?? stage.name);
  return `it died ${row.starts} times, last: ${last}${end === null ? "" : ` (exit ${end})`}`;
}

/** Says of a preview that could not be started that it is dead, and why. Returns the key of what may run of it. */
export async function failPreview(
  ports: Ports,
  buildId: string,
  waveNumber: number,
  reason: string,
): Promise<string | null> {
  const said = (await maskOf(ports, await ports.store.builds.get({ id: buildId }), null))(reason);
  return ports.store.transaction("fail-preview", async (transaction) => {
    await transaction.lockBuild(buildId);
    const { headSha } = await transaction.waves.get({ buildId, number: waveNumber });
    const present = await transaction.previews.find({ buildId });
    if (present !== null && present.waveNumber > waveNumber) return null;
    if (present?.waveNumber === waveNumber && present.status !== "starting") return null;
    const never = { waveNumber, sha: headSha ?? "", port: 0, starts: 0, jobKey: `preview-${buildId}-${waveNumber}` };
    const dead = { status: "dead", reason: `it could not be started: ${said}`, ...never } as const;
    await transaction.previews.insertIfAbsent({ buildId, ...dead });
    await transaction.previews.update({ buildId }, dead);
    return present?.jobKey ?? null;
  });
}

/** Ends what runs under the key of a preview that was given up; safe when nothing does. */
export async function dropPreview(
  ports: Ports,
  buildId: string,
  jobKey: string,
  reason = "it could not be started",
): Promise<void> {
  if ((await ports.store.jobs.find({ key: jobKey }))?.status === "ended") return;
  const { guest } = await ensureSandbox(ports, await ports.store.builds.get({ id: buildId }));
  await endPreviewJob(ports, guest, jobKey, reason);
}

/** Says that a build's preview is shown no more, in the commit that takes its wave back. Its job is ended after. */
export async function hidePreview(transaction: StoreTransaction, buildId: string, reason: string): Promise<void> {
  await transaction.previews.update({ buildId, status: ["starting", "ready"] }, { status: "stopped", reason });
}

/** Stops a build's preview; safe when there is none. */
export async function stopPreview(ports: Ports, buildId: string, reason: string): Promise<void> {
  const row = await ports.store.previews.find({ buildId });
  if (row === null || row.status === "stopped" || row.status === "dead") return;
  const build = await ports.store.builds.get({ id: buildId });
  const { guest } = await ensureSandbox(ports, build);
  await endPreviewJob(ports, guest, row.jobKey, reason);
  await ports.store.previews.update({ buildId, jobKey: row.jobKey }, { status: "stopped", reason });
}
