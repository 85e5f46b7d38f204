import { isPreviewPlace, previewPlaceOf } from "../../domain/sandbox/sandbox.ts";
import { liveJobStatuses } from "../../domain/status.ts";
import type { JobState, SandboxDriver, SandboxEndpoint, SandboxInfo } from "../../sandbox/port.ts";
import { networkPolicyOf } from "../../sandbox-lifecycle/network-policy.ts";
import { withSandboxAlone } from "../../sandbox-lifecycle/sandbox-locks.ts";
import type { BuildRow, JobRow, PreviewRow } from "../../store/port.ts";
import { endLiveJob } from "../../store/queries/jobs.ts";
import { lostState } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";

// A preview runs the agents' code and outlives its wave, so it gets its own sandbox, with its own
// volume, loopback, /tmp and processes. Nothing it writes reaches a gate, a task or the project's
// tree.
//
// PS1. A project has at most one preview sandbox. The row of the shown preview names it before it
// is made (W9).
// PS2. It is opened, cleared and swept under its own lock, each time after reading the rows again.
// So the next process to look removes a sandbox that no shown preview names, with its volume.

/** The project of a preview, and the driver of its sandbox. */
export type PreviewPlace = Pick<BuildRow, "projectId" | "sandboxDriver">;

/**
 * Lists the project's previews that run or are about to: at most one, except while one replaces
 * another.
 */
export async function shownPreviews(ports: Ports, projectId: string): Promise<PreviewRow[]> {
  const rows = await ports.store.previews.list({ status: ["starting", "ready"] });
  const builds = await ports.store.builds.list({ projectId, id: rows.map((row) => row.buildId) });
  return rows.filter((row) => builds.some((build) => build.id === row.buildId));
}

/** Returns the running sandbox of the project's preview; null when there is none. */
export const findPreviewSandbox = (ports: Ports, { projectId, sandboxDriver }: PreviewPlace) =>
  ports.driver(sandboxDriver).find(previewPlaceOf(projectId));

/**
 * Returns the preview's sandbox with the tree of its commit, made afresh unless it is already this
 * preview's. Null when the row no longer asks for it.
 */
export function openPreviewSandbox(ports: Ports, build: BuildRow, row: PreviewRow): Promise<SandboxEndpoint | null> {
  const { buildId, jobKey, sandboxId, sha } = row;
  return withSandboxAlone(ports, previewPlaceOf(build.projectId), async () => {
    if ((await ports.store.previews.find({ buildId, jobKey, status: "starting" })) === null) return null;
    const driver = ports.driver(build.sandboxDriver);
    const projectId = previewPlaceOf(build.projectId);
    const present = await driver.find(projectId);
    if (present?.sandboxId !== sandboxId) await driver.remove(projectId, { volume: true });
    const endpoint = await driver.ensure({
      projectId,
      sandboxId: sandboxId!,
      tenantId: build.tenantId,
      network: networkPolicyOf(build),
      limits: ports.sandboxPolicy.limits,
    });
    // A start that was given up must not begin later.
    await endUnshownJobs(ports, build, endpoint, "it is started again");
    // From the authority, never from the project's volume, which agents write.
    await ports.workspace.syncVolume(build.projectId, endpoint.guest, sha);
    return endpoint;
  });
}

/**
 * Ends the project's preview jobs that no shown preview names, then removes the sandbox unless a
 * shown preview has it. Anybody may call it at any time.
 */
export async function clearPreviews(ports: Ports, place: PreviewPlace, reason: string): Promise<void> {
  const driver = ports.driver(place.sandboxDriver);
  await withSandboxAlone(ports, previewPlaceOf(place.projectId), () => clearAlone(ports, driver, place, reason));
}

async function clearAlone(ports: Ports, driver: SandboxDriver, place: PreviewPlace, reason: string): Promise<void> {
  const present = await findPreviewSandbox(ports, place);
  const shown = await endUnshownJobs(ports, place, present, reason);
  const isShown = present !== null && shown.some((row) => row.sandboxId === present.sandboxId);
  if (!isShown) await driver.remove(previewPlaceOf(place.projectId), { volume: true });
}

/** Ends the project's preview jobs except those of shown previews, which it returns. */
async function endUnshownJobs(
  ports: Ports,
  { projectId }: PreviewPlace,
  present: SandboxEndpoint | null,
  reason: string,
): Promise<PreviewRow[]> {
  const shown = await shownPreviews(ports, projectId);
  for (const job of await ports.store.jobs.list({ projectId, ownerKind: "preview", status: liveJobStatuses })) {
    if (shown.some((row) => row.jobKey === job.key)) continue;
    const state = await endedState(present, job, reason);
    await endLiveJob(ports.store, job.key, { state, endedAt: ports.clock.now() });
  }
  return shown;
}

/** If the guest does not answer, the job ends with its sandbox, which is removed next. */
const endedState = (present: SandboxEndpoint | null, { key }: JobRow, reason: string): Promise<JobState> =>
  present === null
    ? Promise.resolve(lostState(key))
    : present.guest.cancelJob(key, { reason, graceMs: 2_000 }).catch(() => lostState(key));

/** Removes the preview sandboxes among these that no shown preview names. Returns their ids. */
export async function sweepPreviewSandboxes(
  ports: Ports,
  driver: SandboxDriver,
  infos: readonly SandboxInfo[],
): Promise<string[]> {
  const swept: string[] = [];
  for (const { projectId: place, sandboxId } of infos) {
    if (!isPreviewPlace(place)) continue;
    const isSwept = await withSandboxAlone(ports, place, () => sweepAlone(ports, driver, place, sandboxId), {
      wait: false,
    });
    if (isSwept === true) swept.push(sandboxId ?? place);
  }
  return swept;
}

async function sweepAlone(
  ports: Ports,
  driver: SandboxDriver,
  place: SandboxInfo["projectId"],
  sandboxId: string | null,
): Promise<boolean> {
  const named =
    sandboxId === null ? null : await ports.store.previews.find({ sandboxId, status: ["starting", "ready"] });
  if (named !== null) return false;
  const present = await driver.find(place);
  if (present !== null && present.sandboxId !== sandboxId) return false;
  await driver.remove(place, { volume: true });
  return true;
}
