import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { JobState } from "../../sandbox/port.ts";
import { whyNoRoom } from "../../sandbox-lifecycle/admit-sandbox.ts";
import type { BuildRow, PreviewRow, StoreTransaction } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import { describeFailure, maskOf } from "../job/job-results.ts";
import { prepareJob } from "../job/job-setting.ts";
import { shellArgv, stage, startJob } from "../job/job-stages.ts";
import { recheckPullRequests } from "../outside/recheck-pull-requests.ts";
import type { Ports } from "../port.ts";
import { clearPreviews, openPreviewSandbox } from "./preview-sandbox.ts";
import { evictPreview, isForgotten } from "./sleep-preview.ts";

// A preview runs in its own sandbox and is shown only after it has answered. One that dies is
// restarted three times, then marked dead. The commit that ends its job also holds the event for
// the restart, so that the restart happens even if the process that saw the death crashes.

const maxStarts = 4;
const bootTimeoutMs = 120_000;
/** The statuses of previews that are not over. */
const live = ["starting", "ready", "asleep"] as const;

/**
 * Starts the preview of a delivered wave in place of the previous one, and restarts one that died
 * or was woken. Safe to call twice; a preview that was stopped or put to sleep meanwhile stays so.
 */
export async function deployPreview(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  const wave = await ports.store.waves.get({ buildId, number: waveNumber });
  const build = await ports.store.builds.get({ id: wave.buildId });
  const before = await ports.store.previews.find({ buildId: build.id });
  if (build.plan.preview === null || wave.headSha === null) return;
  if (before !== null && before.waveNumber > wave.number) return;
  // Commits that a person pushed to a waiting wave are another tree.
  const own = before?.waveNumber === wave.number && before.sha === wave.headSha ? before : null;
  const start = own === null ? 1 : await nextStart(ports, own);
  if (start === null) return clearPreviews(ports, build, own?.reason ?? "it is no longer shown");
  for (const other of await otherPreviews(ports, build)) await stopPreview(ports, other, "a newer wave is shown");
  const row = await intendPreview(ports, before, {
    tenantId: build.tenantId,
    buildId: build.id,
    waveNumber: wave.number,
    sha: wave.headSha,
    status: "starting",
    port: 0,
    starts: start,
    // A new key each time, because the job of an abandoned start never starts.
    jobKey: `preview-${build.id}-${wave.number}-${ports.ids("job")}`,
    // A preview that died restarts in its sandbox; another wave never uses it.
    sandboxId: own?.sandboxId ?? ports.ids("sandbox"),
    requestedAt: own?.requestedAt ?? ports.clock.now(),
    // Why the start before this one failed.
    reason: own?.reason ?? null,
  });
  if (row !== null) await startPreview(ports, build, row);
}

/**
 * Returns which start of this preview is due; null when none is. The process that wrote the row may
 * have crashed before the job began.
 */
async function nextStart(ports: Ports, { status, jobKey, starts }: PreviewRow): Promise<number | null> {
  if (status !== "starting" && status !== "ready") return null;
  const job = await ports.store.jobs.find({ key: jobKey });
  if (job?.status === "running") return null;
  return job?.status === "ended" ? starts + 1 : starts;
}

/** Lists the project's other builds with a preview, because a project shows one at a time. */
async function otherPreviews(ports: Ports, { id, projectId }: BuildRow): Promise<string[]> {
  const rows = await ports.store.previews.list({ status: live });
  const ids = rows.map((row) => row.buildId).filter((buildId) => buildId !== id);
  return (await ports.store.builds.list({ projectId, id: ids })).map((build) => build.id);
}

async function startPreview(ports: Ports, build: BuildRow, row: PreviewRow): Promise<void> {
  const { buildId, waveNumber, sha, jobKey, starts } = row;
  const preview = present(build.plan.preview, "build.plan.preview");
  await makeRoom(ports);
  const endpoint = await openPreviewSandbox(ports, build, row);
  if (endpoint === null) return clearPreviews(ports, build, "it is no longer shown");
  const setting = await prepareJob({
    ports,
    endpoint,
    plan: build.plan,
    projectId: build.projectId,
    sha,
    treePath: "repo",
    mentions: [preview.command],
  });
  await ports.store.previews.update({ buildId, jobKey }, { port: setting.port });
  const boot = stage({
    name: "preview",
    argv: shellArgv(preview.command),
    env: setting.env,
    cwd: "repo",
    timeoutMs: bootTimeoutMs,
  });
  const ready = { http: { port: setting.port, path: preview.healthPath } };
  await startJob(ports, endpoint, {
    key: jobKey,
    build,
    owner: { kind: "preview", id: build.id, fence: starts },
    spec: {
      stages: [...setting.stages, { ...boot, background: true, ready }],
      ...setting.reach,
      labels: { build: build.id, preview: String(waveNumber) },
    },
  });
}

/**
 * Makes room for a preview. Previews give way to builds, and the preview that was requested last
 * gets the room. Fails with `capacity`, retryable, when the machine has no room for one more
 * sandbox.
 */
async function makeRoom(ports: Ports): Promise<void> {
  for (;;) {
    const full = whyNoRoom(ports, await ports.machine.room());
    if (full === null) return;
    if (await evictPreview(ports)) continue;
    throw new WavesmithError("capacity", `no room for the preview's sandbox: ${full}`, {
      retryable: true,
      retryAfterMs: 10_000,
    });
  }
}

/**
 * Records the preview's job and sandbox. Null when its wave was taken back, its build cancelled, or
 * the row it replaces changed meanwhile, because then somebody else has started or stopped it.
 */
async function intendPreview(ports: Ports, replaced: PreviewRow | null, row: PreviewRow): Promise<PreviewRow | null> {
  const { buildId, waveNumber } = row;
  return ports.store.transaction("preview-intend", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await transaction.waves.get({ buildId, number: waveNumber });
    const isShown = wave.status === "passed" || wave.status === "waiting";
    if (!isShown || build.status === "cancelling" || build.status === "cancelled") {
      const stopped = { status: "stopped", reason: `wave ${waveNumber} is no longer shown` } as const;
      await transaction.previews.update({ buildId, waveNumber, status: live }, stopped);
      return null;
    }
    const present = await transaction.previews.find({ buildId });
    if (present?.jobKey !== replaced?.jobKey || present?.status !== replaced?.status) return null;
    await transaction.previews.insertIfAbsent(row);
    await transaction.previews.update({ buildId }, row);
    return row;
  });
}

/**
 * Updates the preview's row from its job: ready once it answered. Ends a job that the row no longer
 * shows.
 */
export async function previewProgressed(ports: Ports, build: BuildRow, state: JobState): Promise<void> {
  if (state.status !== "running") return;
  const { id: buildId } = build;
  const row = await ports.store.previews.find({ buildId });
  if (row?.jobKey !== state.key || (row.status !== "starting" && row.status !== "ready"))
    await clearPreviews(ports, build, row?.reason ?? "it is no longer shown");
  else if (state.stages.at(-1)?.status === "ready") await showPreview(ports, buildId, state.key);
}

/** Marks a preview that has answered as ready; the build's pull request then links to it. */
async function showPreview(ports: Ports, buildId: string, jobKey: string): Promise<void> {
  const [ready] = await ports.store.previews.update(
    { buildId, jobKey, status: "starting" },
    { status: "ready", reason: null },
  );
  if (ready !== undefined) await recheckPullRequests(ports.store, ports, { buildId });
}

/**
 * Handles the end of the preview's job: stopped by us, due for a restart, or dead. Call it in the
 * commit that ends the job.
 */
export async function settlePreview(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  jobKey: string,
  state: JobState,
): Promise<void> {
  const row = await transaction.previews.find({ buildId: build.id, jobKey, status: ["starting", "ready"] });
  if (row === null) return;
  const set = async (patch: Partial<PreviewRow>): Promise<void> => {
    await transaction.previews.update({ buildId: build.id, jobKey }, patch);
    await recheckPullRequests(transaction, ports, { buildId: build.id });
  };
  if (state.status === "cancelled") {
    await set({ status: "stopped", reason: state.cancelReason });
    return;
  }
  // For example, its machine restarted and nobody has requested it since.
  if (state.status === "lost" && isForgotten(ports, row)) {
    await set({ status: "asleep", reason: "nothing used it for a while" });
    return;
  }
  if (row.starts >= maxStarts) {
    await set({ status: "dead", reason: `it failed ${row.starts} times, last: ${whyEnded(state)}` });
    return;
  }
  await set({ status: "starting", reason: `start ${row.starts} of ${maxStarts} failed: ${whyEnded(state)}` });
  await eventsOf(transaction, build).deployPreview(row, jobKey, row.starts);
}

function whyEnded(state: JobState): string {
  const stage = state.stages.findLast((candidate) => candidate.status === "failed");
  return stage === undefined ? `its job was ${state.status}` : describeFailure(stage);
}

/** Marks a preview that could not start as dead, with the reason, and removes its sandbox. */
export async function failPreview(ports: Ports, buildId: string, waveNumber: number, reason: string): Promise<void> {
  const maskedReason = (await maskOf(ports, await ports.store.builds.get({ id: buildId }), null))(reason);
  await ports.store.transaction("fail-preview", async (transaction) => {
    await transaction.lockBuild(buildId);
    const { headSha } = await transaction.waves.get({ buildId, number: waveNumber });
    const present = await transaction.previews.find({ buildId });
    if (present !== null && present.waveNumber > waveNumber) return;
    if (present?.waveNumber === waveNumber && present.status !== "starting") return;
    const never = { waveNumber, sha: headSha ?? "", port: 0, starts: 0, jobKey: `preview-${buildId}-${waveNumber}` };
    const dead = { status: "dead", reason: `it could not start: ${maskedReason}`, ...never } as const;
    await transaction.previews.insertIfAbsent({ buildId, ...dead });
    await transaction.previews.update({ buildId }, dead);
    await recheckPullRequests(transaction, ports, { buildId });
  });
}

/** Removes the leftovers of a build's hidden preview; safe when there are none. */
export async function clearPreviewOf(ports: Ports, buildId: string, reason: string): Promise<void> {
  await clearPreviews(ports, await ports.store.builds.get({ id: buildId }), reason);
}

/** Hides a build's preview, in the commit that takes its wave back. Its job is ended afterwards. */
export async function hidePreview(transaction: StoreTransaction, buildId: string, reason: string): Promise<void> {
  await transaction.previews.update({ buildId, status: live }, { status: "stopped", reason });
}

/** Stops a build's preview and removes its sandbox; safe when there is none. */
export async function stopPreview(ports: Ports, buildId: string, reason: string): Promise<void> {
  const [stopped] = await ports.store.previews.update({ buildId, status: live }, { status: "stopped", reason });
  if (stopped === undefined) return;
  await recheckPullRequests(ports.store, ports, { buildId });
  await clearPreviewOf(ports, buildId, reason);
}
