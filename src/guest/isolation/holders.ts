// Records which user owns which folder of a volume, where each job has its own user.
// GH1. What a job or command may write belongs to its user, and nobody else may enter it. The
// folders above belong to root, so that nobody can replace another user's folder. Ownership in the
// file system is the only record.
// GH2. `repo` and `sync` belong to the user `wavesmith`: only our own commands work on them, and
// everybody may read `repo`.
// GH3. Several jobs write `cache` and the tree that the tasks of a wave share. Each is open to a
// group, whose members are the jobs that request it.
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { GuestFault } from "../faults.ts";
import { isWithin, segmentsOf, type Volume } from "../files/confined-volume.ts";
import type { FileHolders, FileWorker } from "../files/held-files.ts";
import { type HeldFolders, holderOf, isCache, jobUserOf, takeFolder } from "./held-folders.ts";
import { giveTree, removeHeld, setOwner } from "./ownership.ts";
import type { Reaper } from "./reaper.ts";
import { groupOf, type SharingParts, shareCache, shareFolder } from "./shared-folders.ts";
import { createUsers, type User, type Users, wavesmithUser } from "./users.ts";

/** The folders that a job or command asks for. */
export interface Wanted {
  readonly writable: readonly string[];
  /**
   * Folders that it must not see. Only members of its group see a shared folder, and only its user
   * sees any other, so nothing more is needed here.
   */
  readonly hidden?: readonly string[] | undefined;
  /** The folders among `writable` that other jobs write at the same time. */
  readonly shared?: readonly string[];
  readonly cwd: string;
}

export interface Holders extends FileHolders {
  readonly users: Users;
  /**
   * Returns the user for a program that may write these folders; creates them and gives them to
   * that user.
   */
  claim(wanted: Wanted): Promise<User>;
  /** Gives a folder that the guest created to a user. */
  give(path: string, uid: number): void;
  /** Removes, after the last program of a job, what its user left where all users may write. */
  sweep(user: User, wanted: Wanted): Promise<void>;
}

// Fixes files that were moved there from elsewhere, or created for their owner alone.
const repairSharedScript = `cd -- "$1" && find . -user "$2" ! -type l \\( ! -group "$3" -o ! -perm -060 \\) -exec chgrp -h "$3" {} + -exec chmod g+rwX {} +`;
/** Between this many names of a folder, other requests get their turn. */
const namesPerTurn = 500;
/** Folders in memory where every user may create files. */
const commonFolders = ["/tmp", "/dev/shm", "/dev/mqueue"] as const;

interface Parts {
  readonly volume: Volume;
  readonly worker: FileWorker;
  readonly reaper: Reaper;
}

/**
 * Takes over a volume, including one that was restored, or one of an earlier version in which
 * everything belonged to one user.
 */
export async function openHolders({ volume, worker, reaper }: Parts): Promise<Holders> {
  const at = (path: string): string => join(volume.root, path);
  if (lstatSync(volume.own).uid !== 0) await giveTree(volume.own, 0, () => false);
  const held = findHeld(volume.root);
  const isOwner = (uid: number): boolean => [...held.values()].includes(uid);
  const users = createUsers(volume.own, isOwner);
  const folders: HeldFolders = { root: volume.root, held, users, worker };
  const sharing: SharingParts = { folders, reaper };

  const claimNow: Holders["claim"] = async ({ writable, shared = [], cwd }) => {
    const own = writable.filter((path) => !isCache(path) && !shared.includes(path));
    const candidates = own.length > 0 || writable.length > 0 ? own : [cwd];
    const owner = candidates.map((path) => jobUserOf(folders, path)).find((uid) => uid !== null);
    const uid = owner ?? (writable.length === 0 ? wavesmithUser : users.next());
    for (const path of own) await takeFolder(folders, path, uid);
    const groups = new Set([...own, cwd].flatMap((path) => groupOf(folders, path)));
    if (writable.some(isCache)) groups.add(await shareCache(sharing));
    for (const path of shared) groups.add(await shareFolder(sharing, path));
    return { uid, groups: [...groups] };
  };
  let lastClaim: Promise<unknown> = Promise.resolve();
  return {
    users,
    holderOf: (path, itself) => holderOf(folders, path, itself),
    // Claims run one after the other, because two that open the same folder would take it from each
    // other.
    claim: (wanted) => {
      const mine = lastClaim.then(() => claimNow(wanted));
      lastClaim = mine.catch(() => undefined); // The caller gets the error; the next claim only waits.
      return mine;
    },
    give: (path, uid) => setOwner(path, { uid, gid: uid, mode: 0o700 }),
    drop: async (path) => {
      const dropped = segmentsOf(path).join("/");
      if (dropped === "") throw new GuestFault(400, "path", "the volume's root cannot be removed");
      await removeHeld(at(dropped));
      for (const name of held.keys()) if (isWithin(dropped, name)) held.delete(name);
    },
    sweep: async ({ uid, groups }, { shared = [] }) => {
      for (const path of shared) {
        const [group] = groupOf(folders, path);
        if (group === undefined) continue;
        await reaper.run({ uid, gid: uid, groups }, repairSharedScript, [at(path), String(uid), String(group)]);
      }
      if (uid === wavesmithUser) return;
      await sweepCommonFolders(uid);
      if (hasMemory(uid)) await reaper.run({ uid, gid: uid }, "ipcrm --all", []);
    },
  };
}

/** Finds the topmost folders owned by users other than root. */
function findHeld(root: string): Map<string, number> {
  const held = new Map<string, number>();
  const visit = (folder: string): void => {
    for (const name of readdirSync(join(root, folder))) {
      const path = folder === "" ? name : `${folder}/${name}`;
      const stats = lstatSync(join(root, path), { throwIfNoEntry: false });
      if (stats === undefined || !stats.isDirectory() || name === ".guest") continue;
      if (stats.uid === 0) visit(path);
      else held.set(path, stats.uid);
    }
  };
  visit("");
  return held;
}

async function sweepCommonFolders(uid: number): Promise<void> {
  for (const folder of commonFolders) {
    for (const [index, name] of namesIn(folder).entries()) {
      if (index % namesPerTurn === 0) await nextTurn();
      const stats = lstatSync(join(folder, name), { throwIfNoEntry: false });
      if (stats?.uid === uid) await removeHeld(join(folder, name));
    }
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // Not every system has all of these folders.
  }
}

/**
 * Whether the user left System V shared memory, semaphores or message queues. The creator counts as
 * well as the owner, because a job can give what it made to another user.
 */
function hasMemory(uid: number): boolean {
  return ["shm", "sem", "msg"].some((kind) => {
    try {
      const [names = [], ...rows] = readFileSync(`/proc/sysvipc/${kind}`, "latin1")
        .split("\n")
        .map((line) => line.trim().split(/\s+/));
      const columns = [names.indexOf("uid"), names.indexOf("cuid")];
      return rows.some((row) => columns.some((column) => row[column] === String(uid)));
    } catch {
      return false; // A kernel without them.
    }
  });
}
