// A volume that takes the place of another.
//
// R1. `<volume>.unpacking-<pid>-<start>-…` is being filled by that process; when it is dead, the
// folder is nobody's.
// R2. Under the project's lock and with the sandbox stopped: `.unpacking-…` becomes `.restored`,
// the volume becomes `.replaced`, `.restored` becomes the volume, `.replaced` is removed. At every
// moment the old volume or the new one is whole, and which of the two a dead process meant is read
// from the names.
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, renameSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { processStart } from "../../host/processes.ts";
import type { Places } from "./launch.ts";
import { removeFolder } from "./volume.ts";

const restored = (volume: string): string => `${volume}.restored`;
const replaced = (volume: string): string => `${volume}.replaced`;

/** The folder to unpack into, not made yet. */
export const unpackingFolder = ({ volume }: Places): string =>
  `${volume}.unpacking-${process.pid}-${startOf(process.pid)}-${randomBytes(4).toString("hex")}`;

const startOf = (pid: number): string | null => processStart(pid)?.replace(/\W+/g, "_") ?? null;

/**
 * Puts what was unpacked in the volume's place. Under the project's lock, with nothing of the
 * sandbox running.
 */
export async function takePlace(places: Places, unpacked: string): Promise<void> {
  const { volume } = places;
  await finishRestores(places);
  renameSync(unpacked, restored(volume));
  if (existsSync(volume)) renameSync(volume, replaced(volume));
  renameSync(restored(volume), volume);
  await removeFolder(replaced(volume));
}

/**
 * Completes or clears away what a process that died in a restore has left: one that had begun to
 * take the volume away is completed, one that had not is forgotten. Under the project's lock,
 * before the volume is used.
 */
export async function finishRestores({ volume }: Places): Promise<void> {
  if (!existsSync(volume) && existsSync(restored(volume))) renameSync(restored(volume), volume);
  if (!existsSync(volume) && existsSync(replaced(volume))) renameSync(replaced(volume), volume);
  const left = existsSync(dirname(volume)) ? readdirSync(dirname(volume)) : [];
  for (const name of left.filter((one) => isOver(one, basename(volume)))) {
    await removeFolder(join(dirname(volume), name));
  }
}

function isOver(name: string, project: string): boolean {
  if (name === `${project}.restored` || name === `${project}.replaced`) return true;
  const [, of, pid, start] = /^(.+)\.unpacking-(\d+)-(\w+)-[0-9a-f]{8}$/.exec(name) ?? [];
  return of === project && startOf(Number(pid)) !== start;
}
