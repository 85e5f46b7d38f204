// Replaces one volume with another.
//
// LR1. A process fills `<volume>.unpacking-<pid>-<start>-…`; when it is dead, the folder belongs to
// nobody.
// LR2. The swap happens under the project's lock with the sandbox stopped: `.unpacking-…` becomes
// `.restored`, the volume becomes `.replaced`, `.restored` becomes the volume, and `.replaced` is
// removed. At every moment the old volume or the new one is complete, and the names show how far a
// crashed process came.

import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, renameSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { removeTree } from "../../../guest/files/remove-tree.ts";
import { processStart } from "../../host/processes.ts";
import type { Places } from "./launch.ts";

const restored = (volume: string): string => `${volume}.restored`;
const replaced = (volume: string): string => `${volume}.replaced`;

/** Names the folder to unpack into, which does not exist yet. */
export const unpackingFolder = ({ volume }: Places): string =>
  `${volume}.unpacking-${process.pid}-${startOf(process.pid)}-${randomBytes(4).toString("hex")}`;

const startOf = (pid: number): string | null => processStart(pid)?.replace(/\W+/g, "_") ?? null;

/**
 * Puts the unpacked folder in the volume's place. The caller holds the project's lock, and nothing
 * of the sandbox runs.
 */
export async function takePlace(places: Places, unpacked: string): Promise<void> {
  const { volume } = places;
  await finishRestores(places);
  renameSync(unpacked, restored(volume));
  if (existsSync(volume)) renameSync(volume, replaced(volume));
  renameSync(restored(volume), volume);
  await removeTree(replaced(volume));
}

/**
 * Finishes the restore of a crashed process: completes it if the volume was already moved,
 * otherwise discards it. Call it under the project's lock, before the volume is used.
 */
export async function finishRestores({ volume }: Places): Promise<void> {
  if (!existsSync(volume) && existsSync(restored(volume))) renameSync(restored(volume), volume);
  if (!existsSync(volume) && existsSync(replaced(volume))) renameSync(replaced(volume), volume);
  const left = existsSync(dirname(volume)) ? readdirSync(dirname(volume)) : [];
  for (const name of left.filter((one) => isOver(one, basename(volume)))) {
    await removeTree(join(dirname(volume), name));
  }
}

function isOver(name: string, project: string): boolean {
  if (name === `${project}.restored` || name === `${project}.replaced`) return true;
  const [, of, pid, start] = /^(.+)\.unpacking-(\d+)-(\w+)-[0-9a-f]{8}$/.exec(name) ?? [];
  return of === project && startOf(Number(pid)) !== start;
}
