// Changing whose files are, as root without rights over other users' files: only CHOWN, SETUID and
// SETGID.
// O1. A folder is made root's before anything in it is touched. Its name then stays what it is:
// whoever could rename something on the way could have root change a file elsewhere.
// O2. Links are never followed, and what belongs to a user that still has processes is left alone.
import { chmodSync, lchownSync, lstatSync, mkdirSync, readdirSync, rmdirSync, type Stats, unlinkSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";
import { GuestFault } from "../faults.ts";

type Path = Buffer;

/**
 * Gives a folder and what it holds to a user, but for what belongs to a user for whom `isTaken`
 * holds.
 */
export async function giveTree(path: string, uid: number, isTaken: (uid: number) => boolean): Promise<void> {
  await give(Buffer.from(path), uid, isTaken);
}

async function give(folder: Path, uid: number, isTaken: (uid: number) => boolean): Promise<void> {
  const { mode } = takeFolder(folder);
  for (const { child, found } of childrenOf(folder)) {
    if (found.uid !== uid && isTaken(found.uid)) continue;
    if (found.isDirectory()) await give(child, uid, isTaken);
    else lchownSync(child, uid, uid);
  }
  chmodSync(folder, (mode & 0o777) | 0o700);
  lchownSync(folder, uid, uid);
  await turn();
}

/**
 * Removes a folder, or anything else, whoever owns what is in it; succeeds when it is not there.
 */
export async function removeHeld(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (found.isDirectory()) await removeFolder(Buffer.from(path));
  else unlinkSync(path);
}

async function removeFolder(folder: Path): Promise<void> {
  takeFolder(folder);
  for (const { child, found } of childrenOf(folder)) {
    if (found.isDirectory()) await removeFolder(child);
    else unlinkSync(child);
  }
  rmdirSync(folder);
  await turn();
}

/** Makes a folder root's alone. Returns what it was. */
function takeFolder(folder: Path): Stats {
  const before = lstatSync(folder);
  lchownSync(folder, 0, 0);
  // Only now, since nobody else can put anything in its place any more.
  if (!lstatSync(folder).isDirectory()) throw new GuestFault(409, "changed", `${folder} is no folder any more`);
  chmodSync(folder, 0o700);
  return before;
}

function childrenOf(folder: Path): { child: Path; found: Stats }[] {
  return readdirSync(folder, { encoding: "buffer" }).flatMap((name) => {
    const child = Buffer.concat([folder, Buffer.from("/"), name]);
    const found = lstatSync(child, { throwIfNoEntry: false });
    return found === undefined ? [] : [{ child, found }];
  });
}

/** Makes a folder root's, open for passing through and closed for looking. Its parent is root's. */
export function makeParent(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) mkdirSync(path, { mode: 0o711 });
  else if (!found.isDirectory()) throw new GuestFault(400, "path", `${path} is no folder`);
  else if (found.uid === 0 && (found.mode & 0o7777) === 0o711) return;
  setOwner(path, { uid: 0, gid: 0, mode: 0o711 });
}

/** Sets owner and mode of a folder whose parent is root's. */
export function setOwner(path: string, { uid, gid, mode }: { uid: number; gid: number; mode: number }): void {
  takeFolder(Buffer.from(path));
  chmodSync(path, mode);
  lchownSync(path, uid, gid);
}
