import { isDiskFull } from "../../domain/disk-full.ts";
import { handoverPath } from "../../domain/sandbox/volume-paths.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import { dropJob } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { closeSharedTree, sharesTree } from "../wave/shared-tree.ts";
import { type AttemptRef, homesOf, loadAttempt } from "./attempt.ts";
import { keepAttemptTree } from "./kept-work.ts";

/** Removes a settled attempt's files from the volume, after keeping any unkept work (W8). */
export async function closeAttempt(ports: Ports, attemptRef: AttemptRef): Promise<void> {
  const loaded = await loadAttempt(ports, attemptRef.attemptId);
  const { attempt, build } = loaded;
  if (attempt.status !== "settled") return;
  const endpoint = await ensureSandbox(ports, build);
  const hadJob = await dropJob(ports, endpoint, attempt.jobKey);
  // Skip a shared tree, because the task's next attempt may be running in it. Its start, or the
  // wave's join, keeps the work.
  if (hadJob && attempt.commitSha === null && !sharesTree(attempt)) {
    const kept = await keepAttemptTree(ports, endpoint, loaded).catch((error: unknown) => {
      if (!isDiskFull(error)) throw error;
      ports.log.warn(
        `the disk is too full to save the work of an attempt; it stays in ${attempt.treePath} on its sandbox's volume`,
      );
      return "no-room" as const;
    });
    if (kept === "no-room") return;
    if (kept?.commit != null)
      await ports.store.attempts.update({ id: attempt.id, commitSha: null }, { commitSha: kept.commit });
  }
  // After a failure the next attempt may continue the session.
  const homes = attempt.outcome === "succeeded" ? homesOf(loaded) : [];
  await Promise.all([
    sharesTree(attempt)
      ? closeSharedTree(ports, { ...loaded, treePath: attempt.treePath })
      : ports.workspace.closeTree(endpoint.guest, attempt.treePath),
    ...[handoverPath(attempt.jobKey), ...homes].map((path) => endpoint.guest.remove(path, { recursive: true })),
    endpoint.guest.forgetJob(attempt.jobKey),
  ]);
}
