// Changes the owners of files, as root with only CHOWN, SETUID and SETGID and no rights over other
// users' files.
// OW1. A folder is given to root before anything in it is touched, so that its path stays the same:
// a user who could rename something on the way could make root change a file elsewhere.
// OW2. Links are never followed, and files of a user that still has processes are left alone.
import {
  chmodSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { setImmediate as turn } from "node:timers/promises";
import { GuestFault } from "../faults.ts";
import { childOf, longestPathBytes, pathAbove } from "../files/remove-tree.ts";

type Path = Buffer;
/** Between this many entries of a folder, other requests get their turn. */
const entriesPerTurn = 500;

/**
 * Gives a folder and its contents to a user, except files of users for whom `isTaken` is true and
 * folders that lie too deep.
 */
export async function giveTree(path: string, uid: number, isTaken: (uid: number) => boolean): Promise<void> {
  await giveFolder(Buffer.from(path), uid, isTaken);
}

async function giveFolder(folder: Path, uid: number, isTaken: (uid: number) => boolean): Promise<void> {
  const { mode } = takeFolder(folder);
  for await (const { child, stats } of childrenOf(folder)) {
    if ((stats.uid !== uid && isTaken(stats.uid)) || child.length > longestPathBytes) continue;
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
  if (!stats.isDirectory()) return unlinkSync(path);
  const top = Buffer.from(path);
  takeFolder(top);
  // Entries that are nested too deeply are moved up, one part at a time.
  for (const tooDeep: Path[] = [top]; tooDeep.length > 0; ) {
    const folder = tooDeep.pop()!;
    await emptyFolder(folder, (child) => {
      takeFolder(child); // Moving a folder writes to it.
      const above = pathAbove(top);
      renameSync(child, above);
      tooDeep.push(above);
    });
    if (folder !== top) rmdirSync(folder);
  }
  rmdirSync(top);
}

/** Empties a folder of root's; hands over each folder in it that lies too deep. */
async function emptyFolder(folder: Path, moveUp: (child: Path) => void): Promise<void> {
  for await (const { child, stats } of childrenOf(folder)) {
    if (!stats.isDirectory()) unlinkSync(child);
    else if (child.length > longestPathBytes) moveUp(child);
    else {
      takeFolder(child);
      await emptyFolder(child, moveUp);
      rmdirSync(child);
    }
  }
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

async function* childrenOf(folder: Path): AsyncGenerator<{ child: Path; stats: Stats }> {
  for (const [index, name] of readdirSync(folder, { encoding: "buffer" }).entries()) {
    if (index % entriesPerTurn === 0) await turn();
    const child = childOf(folder, name);
    const stats = lstatSync(child, { throwIfNoEntry: false });
    if (stats !== undefined) yield { child, stats };
  }
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
