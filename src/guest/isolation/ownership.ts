// Changes the owners of files, as root with only CHOWN, SETUID and SETGID and no rights over other
// users' files.
// O1. A folder is given to root before anything in it is touched, so that its path stays the same:
// a user who could rename something on the way could make root change a file elsewhere.
// O2. Links are never followed, and files of a user that still has processes are left alone.
import { chmodSync, lchownSync, lstatSync, mkdirSync, readdirSync, rmdirSync, type Stats, unlinkSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";
import { GuestFault } from "../faults.ts";

type Path = Buffer;

/** Gives a folder and its contents to a user, except files of users for whom `isTaken` is true. */
export async function giveTree(path: string, uid: number, isTaken: (uid: number) => boolean): Promise<void> {
  await giveFolder(Buffer.from(path), uid, isTaken);
}

async function giveFolder(folder: Path, uid: number, isTaken: (uid: number) => boolean): Promise<void> {
  const { mode } = takeFolder(folder);
  for (const { child, stats } of childrenOf(folder)) {
    if (stats.uid !== uid && isTaken(stats.uid)) continue;
    if (stats.isDirectory()) await giveFolder(child, uid, isTaken);
    else lchownSync(child, uid, uid);
  }
  chmodSync(folder, (mode & 0o777) | 0o700);
  lchownSync(folder, uid, uid);
  await turn();
}

/** Removes a folder or file, whatever users own its contents; succeeds when it does not exist. */
export async function removeHeld(path: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (stats.isDirectory()) await removeFolder(Buffer.from(path));
  else unlinkSync(path);
}

async function removeFolder(folder: Path): Promise<void> {
  takeFolder(folder);
  for (const { child, stats } of childrenOf(folder)) {
    if (stats.isDirectory()) await removeFolder(child);
    else unlinkSync(child);
  }
  rmdirSync(folder);
  await turn();
}

/** Gives a folder to root alone. Returns its stats from before. */
function takeFolder(folder: Path): Stats {
  const before = lstatSync(folder);
  lchownSync(folder, 0, 0);
  // Checked only now, because from here on nobody else can replace it.
  if (!lstatSync(folder).isDirectory()) throw new GuestFault(409, "changed", `${folder} is no longer a folder`);
  chmodSync(folder, 0o700);
  return before;
}

function childrenOf(folder: Path): { child: Path; stats: Stats }[] {
  return readdirSync(folder, { encoding: "buffer" }).flatMap((name) => {
    const child = Buffer.concat([folder, Buffer.from("/"), name]);
    const stats = lstatSync(child, { throwIfNoEntry: false });
    return stats === undefined ? [] : [{ child, stats }];
  });
}

/**
 * Gives a folder to root, so that users may pass through it but not list it. Its parent must belong
 * to root.
 */
export function makeParent(path: string): void {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) mkdirSync(path, { mode: 0o711 });
  else if (!stats.isDirectory()) throw new GuestFault(400, "path", `${path} is not a folder`);
  else if (stats.uid === 0 && (stats.mode & 0o7777) === 0o711) return;
  setOwner(path, { uid: 0, gid: 0, mode: 0o711 });
}

/** Sets the owner and mode of a folder whose parent belongs to root. */
export function setOwner(path: string, { uid, gid, mode }: { uid: number; gid: number; mode: number }): void {
  takeFolder(Buffer.from(path));
  chmodSync(path, mode);
  lchownSync(path, uid, gid);
}
