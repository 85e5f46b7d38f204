import { messageOf } from "../../domain/errors.ts";
import { previewPlaceOf } from "../../domain/sandbox/sandbox.ts";
import { mebibytes } from "../../sandbox-lifecycle/volume-limit.ts";
import type { PreviewRow } from "../../store/port.ts";
import { recheckPullRequests } from "../outside/recheck-pull-requests.ts";
import type { Ports } from "../port.ts";
import { clearPreviews, shownPreviews } from "./preview-sandbox.ts";

// A preview without requests is put to sleep: its sandbox is removed, with everything it wrote. The
// next request wakes it in a fresh sandbox. It falls asleep only if nobody has asked for it since;
// a later request finds it asleep and wakes it.

/** Counting many small files is slow. */
const countMs = 20_000;

/** Whether this preview has had no request for as long as the setting allows. */
export function isForgotten(ports: Ports, { requestedAt }: PreviewRow): boolean {
  const { previewTtlMs } = ports.sandboxPolicy;
  return previewTtlMs !== null && ports.clock.now().getTime() - (requestedAt?.getTime() ?? 0) >= previewTtlMs;
}

/** Puts unused previews to sleep, and ends those whose volume is above its limit. */
export async function sleepIdlePreviews(ports: Ports): Promise<{ asleep: string[]; ended: string[] }> {
  const asleep: string[] = [];
  const ended: string[] = [];
  for (const row of await ports.store.previews.list({ status: "ready" })) {
    try {
      if (isForgotten(ports, row)) {
        if (await sleepPreview(ports, row, "nothing used it for a while")) asleep.push(row.buildId);
      } else if (await endOversized(ports, row)) ended.push(row.buildId);
    } catch (error) {
      // A preview that cannot be ended must not hold up the others.
      ports.log.warn(`cannot check the preview of build ${row.buildId}: ${messageOf(error)}`);
    }
  }
  return { asleep, ended };
}

/** Returns false if the preview was requested, or its row changed, since the row was read. */
async function sleepPreview(ports: Ports, row: PreviewRow, reason: string): Promise<boolean> {
  const { buildId, jobKey, requestedAt, status } = row;
  const [asleep] = await ports.store.previews.update(
    { buildId, jobKey, requestedAt, status },
    { status: "asleep", reason },
  );
  if (asleep === undefined) return false;
  await clearPreviews(ports, await ports.store.builds.get({ id: buildId }), reason);
  return true;
}

/** Puts the previews of a project to sleep, because nobody can reach them or room is needed. */
export async function sleepPreviewsOf(ports: Ports, projectId: string, reason: string): Promise<void> {
  for (const row of await shownPreviews(ports, projectId)) await sleepPreview(ports, row, reason);
}

/** Makes room by putting the longest unused preview to sleep; false when there is none. */
export async function evictPreview(ports: Ports): Promise<boolean> {
  for (const row of await ports.store.previews.list({ status: "ready" }, { by: "requestedAt" }))
    if (await sleepPreview(ports, row, "its slot was needed")) return true;
  return false;
}

/** Ends a preview above its volume limit where nothing else enforces it. */
async function endOversized(ports: Ports, { buildId, jobKey }: PreviewRow): Promise<boolean> {
  const build = await ports.store.builds.get({ id: buildId });
  const driver = ports.driver(build.sandboxDriver);
  if ((await driver.capabilities()).disk !== "watched") return false;
  const takes = await driver.volumeBytes(previewPlaceOf(build.projectId), countMs);
  const { diskBytes: most } = ports.sandboxPolicy.limits;
  if (takes === null || takes <= most) return false;
  const reason = `its volume takes ${mebibytes(takes)} of at most ${mebibytes(most)}`;
  const [dead] = await ports.store.previews.update({ buildId, jobKey, status: "ready" }, { status: "dead", reason });
  if (dead === undefined) return false;
  await recheckPullRequests(ports.store, ports, { buildId });
  await clearPreviews(ports, build, reason);
  return true;
}
