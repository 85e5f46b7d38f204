import { lstatSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { GuestFault } from "../faults.ts";
import { type HeldFolders, jobUserOf, takeFolder } from "./held-folders.ts";
import { giveTree } from "./ownership.ts";
import type { Reaper } from "./reaper.ts";
import { cacheGroup, wavesmithUser } from "./users.ts";

// Folders that several jobs write are open to a group, whose members are those jobs.

/** The folders of a volume, and the helper that acts as their users. */
export interface SharingParts {
  readonly folders: HeldFolders;
  readonly reaper: Reaper;
}

const setgid = 0o2000;

// Run as the owner of the folder, with the group it is opened to.
const openToGroupScript = `cd -- "$1" && chgrp -Rh "$2" . && chmod -R g+rwX . && find . -type d -exec chmod g+s {} + && chmod "$3" .`;

/** Opens a folder to the jobs that share it; returns its group. */
export async function shareFolder(parts: SharingParts, path: string): Promise<number> {
  const { folders } = parts;
  const holder = jobUserOf(folders, path) ?? folders.users.next();
  await takeFolder(folders, path, holder);
  const { mode, gid } = lstatSync(join(folders.root, path));
  return (mode & setgid) !== 0 ? gid : openTo(parts, { uid: holder, path, group: holder, mode: "2770" });
}

/** Opens the cache to jobs; returns its group. */
export async function shareCache(parts: SharingParts): Promise<number> {
  const { root, users } = parts.folders;
  const cache = join(root, "cache");
  const stats = lstatSync(cache, { throwIfNoEntry: false });
  if (stats?.gid === cacheGroup && stats.uid === wavesmithUser) return cacheGroup;
  await mkdir(cache, { recursive: true, mode: 0o700 });
  await giveTree(cache, wavesmithUser, users.isLiving);
  return openTo(parts, { uid: wavesmithUser, path: "cache", group: cacheGroup, mode: "3770" });
}

/** Returns the group of a folder that is already shared. */
export function groupOf({ root }: HeldFolders, path: string): number[] {
  const stats = lstatSync(join(root, path), { throwIfNoEntry: false });
  return stats !== undefined && (stats.mode & setgid) !== 0 ? [stats.gid] : [];
}

interface Opening {
  readonly uid: number;
  readonly path: string;
  readonly group: number;
  readonly mode: string;
}

async function openTo({ folders, reaper }: SharingParts, { uid, path, group, mode }: Opening): Promise<number> {
  const exitCode = await reaper.run({ uid, gid: uid, groups: [group] }, openToGroupScript, [
    join(folders.root, path),
    String(group),
    mode,
  ]);
  if (exitCode !== 0) throw new GuestFault(500, "internal", `${path} could not be opened to the jobs that share it`);
  return group;
}
