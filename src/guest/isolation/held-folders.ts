import { lstatSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { GuestFault } from "../faults.ts";
import { segmentsOf } from "../files/confined-volume.ts";
import type { FileWorker } from "../files/held-files.ts";
import { giveTree, makeParent, setOwner } from "./ownership.ts";
import { type Users, wavesmithUser } from "./users.ts";

/** The folders of a volume that belong to users. */
export interface HeldFolders {
  readonly root: string;
  /** The topmost folders that belong to the users of jobs. */
  readonly held: Map<string, number>;
  readonly users: Users;
  readonly worker: FileWorker;
}

/** Whether a path belongs to the user `wavesmith`, who does our own work. */
const isOfWavesmith = (path: string): boolean => /^(repo|sync)(\/|$)/.test(path);
/** Whether a folder is filled once by a job that may write it, and read by all jobs. */
const isReadByAll = (path: string): boolean => isOfWavesmith(path) || /^setup-cache\//.test(path);
export const isCache = (path: string): boolean => /^cache(\/|$)/.test(path);

/** Returns the user whose folder a path lies in, or is with `itself`; null for nobody's. */
export function holderOf({ root }: HeldFolders, path: string, itself = false): number | null {
  const segments = segmentsOf(path);
  for (let depth = 1; depth <= segments.length - (itself ? 0 : 1); depth += 1) {
    const stats = lstatSync(join(root, ...segments.slice(0, depth)), { throwIfNoEntry: false });
    if (stats === undefined) return null;
    if (stats.uid !== 0 && (stats.isDirectory() || depth < segments.length)) return stats.uid;
  }
  return null;
}

/**
 * Returns the user who owns a path; null for folders of an earlier version or a restored volume,
 * which belong to the user `wavesmith`.
 */
export function jobUserOf(folders: HeldFolders, path: string): number | null {
  if (isOfWavesmith(path)) return wavesmithUser;
  const uid = holderOf(folders, path, true);
  return uid === wavesmithUser ? null : uid;
}

/** Gives the folder to the user, unless it lies in a folder that already belongs to a user. */
export async function takeFolder(folders: HeldFolders, path: string, uid: number): Promise<void> {
  const { root, held, users, worker } = folders;
  const segments = segmentsOf(path);
  if (segments.length === 0) throw new GuestFault(400, "path", "the volume's root cannot be given away");
  const outer = holderOf(folders, path);
  // In a folder of another user it may write only what that user allows.
  if (outer !== null && (isOfWavesmith(path) || isCache(path) || outer === uid))
    return void (await worker.ask(outer, { call: "make", path }));
  if (outer !== null && outer !== wavesmithUser)
    throw new GuestFault(403, "forbidden", `${path} lies in another job's folder`);
  for (let depth = 1; depth < segments.length; depth += 1) makeParent(join(root, ...segments.slice(0, depth)));
  const target = join(root, path);
  await mkdir(target, { recursive: true, mode: 0o700 });
  const stats = lstatSync(target);
  if (!stats.isDirectory()) throw new GuestFault(400, "path", `${path} is not a folder`);
  if (stats.uid !== uid) {
    if (users.isLiving(stats.uid) && stats.uid !== wavesmithUser)
      throw new GuestFault(409, "running", `${path} belongs to a job that is still running`);
    await giveTree(target, uid, users.isLiving);
    if (isReadByAll(path)) setOwner(target, { uid, gid: uid, mode: 0o755 });
  }
  if (uid !== wavesmithUser) held.set(segments.join("/"), uid);
}
