// Records which user owns which folder of a volume, where each job has its own user.
// H1. What a job or command may write belongs to its user, and nobody else may enter it. The
// folders above belong to root, so that nobody can replace another user's folder. Ownership in the
// file system is the only record.
// H2. `repo` and `sync` belong to the house user: only our own commands work on them, and everybody
// may read `repo`.
// H3. Several jobs write `cache` and the tree that the tasks of a wave share. Each is open to a
// group, whose members are the jobs that request it.
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { GuestFault } from "../faults.ts";
import type { FileHolders, FileWorker } from "../files/held-files.ts";
import { isWithin, segmentsOf, type Volume } from "../files/volume.ts";
import { giveTree, makeParent, removeHeld, setOwner } from "./ownership.ts";
import type { Reaper } from "./reaper.ts";
import { cacheGroup, createUsers, houseUser, type User, type Users } from "./users.ts";

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

const isHouse = (path: string): boolean => /^(repo|sync)(\/|$)/.test(path);
/** Whether a folder is filled once by a job that may write it, and read by all jobs. */
const isReadByAll = (path: string): boolean => isHouse(path) || /^setup-cache\//.test(path);
const isCache = (path: string): boolean => /^cache(\/|$)/.test(path);
const setgid = 0o2000;

// Run as the owner of the folder, with the group it is opened to.
const openToGroupScript = `cd -- "$1" && chgrp -Rh "$2" . && chmod -R g+rwX . && find . -type d -exec chmod g+s {} + && chmod "$3" .`;
// Fixes files that were moved there from elsewhere, or created for their owner alone.
const repairSharedScript = `cd -- "$1" && find . -user "$2" ! -type l \\( ! -group "$3" -o ! -perm -060 \\) -exec chgrp -h "$3" {} + -exec chmod g+rwX {} +`;
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

  const holderOf: Holders["holderOf"] = (path, itself = false) => {
    const segments = segmentsOf(path);
    for (let depth = 1; depth <= segments.length - (itself ? 0 : 1); depth += 1) {
      const stats = lstatSync(at(segments.slice(0, depth).join("/")), { throwIfNoEntry: false });
      if (stats === undefined) return null;
      if (stats.uid !== 0 && (stats.isDirectory() || depth < segments.length)) return stats.uid;
    }
    return null;
  };
  /** Gives the folder to the user, unless it lies in a folder that already belongs to a user. */
  const take = async (path: string, uid: number): Promise<void> => {
    const segments = segmentsOf(path);
    if (segments.length === 0) throw new GuestFault(400, "path", "the volume's root cannot be given away");
    const outer = holderOf(path);
    // In a folder of another user it may write only what that user allows.
    if (outer !== null && (isHouse(path) || isCache(path) || outer === uid))
      return void (await worker.ask(outer, { call: "make", path }));
    if (outer !== null && outer !== houseUser)
      throw new GuestFault(403, "forbidden", `${path} lies in another job's folder`);
    for (let depth = 1; depth < segments.length; depth += 1) makeParent(at(segments.slice(0, depth).join("/")));
    const target = at(path);
    await mkdir(target, { recursive: true, mode: 0o700 });
    const stats = lstatSync(target);
    if (!stats.isDirectory()) throw new GuestFault(400, "path", `${path} is not a folder`);
    if (stats.uid !== uid) {
      if (users.isLiving(stats.uid) && stats.uid !== houseUser)
        throw new GuestFault(409, "running", `${path} belongs to a job that is still running`);
      await giveTree(target, uid, users.isLiving);
      if (isReadByAll(path)) setOwner(target, { uid, gid: uid, mode: 0o755 });
    }
    if (uid !== houseUser) held.set(segments.join("/"), uid);
  };
  const shareCache = async (): Promise<number> => {
    const stats = lstatSync(at("cache"), { throwIfNoEntry: false });
    if (stats?.gid === cacheGroup && stats.uid === houseUser) return cacheGroup;
    await mkdir(at("cache"), { recursive: true, mode: 0o700 });
    await giveTree(at("cache"), houseUser, users.isLiving);
    return openTo(houseUser, "cache", cacheGroup, "3770");
  };
  const openTo = async (uid: number, path: string, group: number, mode: string): Promise<number> => {
    const exitCode = await reaper.run({ uid, gid: uid, groups: [group] }, openToGroupScript, [
      at(path),
      String(group),
      mode,
    ]);
    if (exitCode !== 0) throw new GuestFault(500, "internal", `${path} could not be opened to the jobs that share it`);
    return group;
  };
  const share = async (path: string): Promise<number> => {
    const holder = jobUserOf(path) ?? users.next();
    await take(path, holder);
    const { mode, gid } = lstatSync(at(path));
    return (mode & setgid) !== 0 ? gid : openTo(holder, path, holder, "2770");
  };
  /** Returns the group of a folder that is already shared. */
  const groupOf = (path: string): number[] => {
    const stats = lstatSync(at(path), { throwIfNoEntry: false });
    return stats !== undefined && (stats.mode & setgid) !== 0 ? [stats.gid] : [];
  };
  /**
   * Returns the user who owns a path; null for folders of an earlier version or a restored volume,
   * which belong to the house user.
   */
  const jobUserOf = (path: string): number | null => {
    if (isHouse(path)) return houseUser;
    const uid = holderOf(path, true);
    return uid === houseUser ? null : uid;
  };
  const claimNow: Holders["claim"] = async ({ writable, shared = [], cwd }) => {
    const own = writable.filter((path) => !isCache(path) && !shared.includes(path));
    const candidates = own.length > 0 || writable.length > 0 ? own : [cwd];
    const owner = candidates.map(jobUserOf).find((uid) => uid !== null);
    const uid = owner ?? (writable.length === 0 ? houseUser : users.next());
    for (const path of own) await take(path, uid);
    const groups = new Set([...own, cwd].flatMap(groupOf));
    if (writable.some(isCache)) groups.add(await shareCache());
    for (const path of shared) groups.add(await share(path));
    return { uid, groups: [...groups] };
  };
  let turn: Promise<unknown> = Promise.resolve();
  return {
    users,
    holderOf,
    // Claims run one after the other, because two that open the same folder would take it from each
    // other.
    claim: (wanted) => {
      const mine = turn.then(() => claimNow(wanted));
      turn = mine.catch(() => undefined); // The caller gets the error; the next claim only waits.
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
        const [group] = groupOf(path);
        if (group === undefined) continue;
        await reaper.run({ uid, gid: uid, groups }, repairSharedScript, [at(path), String(uid), String(group)]);
      }
      if (uid === houseUser) return;
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
    for (const name of namesIn(folder)) {
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

/** Whether the user left System V shared memory, semaphores or message queues. */
function hasMemory(uid: number): boolean {
  return ["shm", "sem", "msg"].some((kind) => {
    try {
      const lines = readFileSync(`/proc/sysvipc/${kind}`, "latin1").split("\n");
      const column = lines[0]!.trim().split(/\s+/).indexOf("uid");
      return lines.slice(1).some((line) => line.trim().split(/\s+/)[column] === String(uid));
    } catch {
      return false; // A kernel without them.
    }
  });
}
