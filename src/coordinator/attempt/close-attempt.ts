import { isDiskFull } from "../../domain/disk-full.ts";
import { dropJob } from "../job/job-stages.ts";
import { handoverPath } from "../names.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { closeSharedTree, sharesTree } from "../wave/shared-tree.ts";
import { type AttemptRefer, homesOf, loadAttempt } from "./attempt.ts";
import { keepTree } from "./keep-work.ts";

/**
 * Removes what the settled attempt left on the volume; work that could not be kept before is kept
 * first (W8).
 */
export async function closeAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, build } = loaded;
  if (attempt.status !== "settled") return;
  const endpoint = await ensureSandbox(ports, build);
  const hadJob = await dropJob(ports, endpoint, attempt.jobKey);
  // In a tree that others share the task's next attempt may be at work: whoever starts it, or joins
  // the wave, keeps it.
  if (hadJob && attempt.commitSha === null && !sharesTree(attempt)) {
    const kept = await keepTree(ports, endpoint, loaded).catch((error: unknown) => {
      if (!isDiskFull(error)) throw error;
      ports.log.warn(
        `no room to keep the work of an attempt; it is left in ${attempt.treePath} of its sandbox's volume`,
      );
      return "no-room" as const;
    });
    if (kept === "no-room") return;
    if (kept?.commit != null)
      await ports.store.attempts.update({ id: attempt.id, commitSha: null }, { commitSha: kept.commit });
  }
  // Another attempt may go on with the session of one that failed.
  const homes = attempt.outcome === "succeeded" ? homesOf(loaded) : [];
  await Promise.all([
    sharesTree(attempt)
      ? closeSharedTree(ports, { ...loaded, treePath: attempt.treePath })
      : ports.workspace.closeTree(endpoint.guest, attempt.treePath),
    ...[handoverPath(attempt.jobKey), ...homes].map((path) => endpoint.guest.remove(path, { recursive: true })),
    endpoint.guest.forgetJob(attempt.jobKey),
  ]);
}
