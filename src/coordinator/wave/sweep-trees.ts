import { messageOf } from "../../domain/errors.ts";
import { gateTreeAt } from "../../domain/sandbox/volume-paths.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import type { AttemptRow, BuildRow, GateRunRow } from "../../store/port.ts";
import { closeAttempt } from "../attempt/close-attempt.ts";
import { closeGate } from "../gate/close-gate.ts";
import { sweepFills } from "../job/setup-cache.ts";
import type { Ports } from "../port.ts";

/**
 * A tree is normally closed right after its attempt or gate settles, with retries on a full disk. A
 * tree that exists this long after was abandoned.
 */
export const forsakenMs = 60 * 60_000;

/**
 * Closes abandoned trees on a project's volume, including those of earlier builds, after keeping
 * any unkept work (W8). Warns about a tree that still cannot be closed. Leaves trees without a row.
 */
export async function sweepTrees(ports: Ports, build: BuildRow, guest: GuestClient): Promise<void> {
  await sweepFills(ports, guest).catch((error: unknown) => ports.log.warn(messageOf(error)));
  for (const folder of await foldersIn(guest, "trees")) {
    const trees = await foldersIn(guest, folder);
    for (const treePath of trees) {
      await closeForsaken(ports, treePath).catch((error: unknown) =>
        ports.log.warn(`cannot remove ${treePath} from the volume of project ${build.projectId}: ${messageOf(error)}`),
      );
    }
    // Keep the folder of the current build, because a tree may be about to open in it.
    if (trees.length === 0 && folder !== `trees/${build.id}`)
      await guest.remove(folder).catch((error: unknown) => ports.log.warn(messageOf(error)));
  }
}

async function foldersIn(guest: GuestClient, path: string): Promise<string[]> {
  if ((await guest.stat(path)) === null) return [];
  return (await guest.list(path)).filter(({ type }) => type === "directory").map((folder) => folder.path);
}

async function closeForsaken(ports: Ports, treePath: string): Promise<void> {
  const gate = gateTreeAt(treePath);
  if (gate !== null) return closeForsakenGate(ports, gate);
  const attempts = await ports.store.attempts.list({ treePath }, { by: "createdAt" });
  if (!attempts.every((attempt) => isForsaken(ports, attempt))) return;
  for (const { id, fence } of attempts) await closeAttempt(ports, { attemptId: id, fence });
}

async function closeForsakenGate(
  ports: Ports,
  { waveNumber, ...which }: NonNullable<ReturnType<typeof gateTreeAt>>,
): Promise<void> {
  const wave = await ports.store.waves.find({ buildId: which.buildId, number: waveNumber });
  const run = wave === null ? null : await ports.store.gateRuns.find({ waveId: wave.id, ...which });
  if (run !== null && isForsaken(ports, run)) await closeGate(ports, { gateRunId: run.id, fence: run.fence });
}

function isForsaken(ports: Ports, { status, endedAt }: Pick<AttemptRow | GateRunRow, "status" | "endedAt">): boolean {
  if ((status !== "settled" && status !== "finished") || endedAt === null) return false;
  return ports.clock.now().getTime() - endedAt.getTime() >= forsakenMs;
}
