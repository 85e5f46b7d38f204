// Whose the folders of a volume are, where each job has a user of its own.
// H1. What a job or command may write belongs to its user, and nobody else enters it. The folders
// above belong to root, so that nobody can put anything in the place of another's. That the file
// system says so is the whole record.
// H2. `repo` and `sync` belong to the house: what works on them is ours, and everybody reads
// `repo`.
// H3. Several write `cache`, and the tree that the tasks of a wave share. Each is open to a group,
// which those have that say so.
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { GuestFault } from "../faults.ts";
import type { FileHolders, FileWorker } from "../files/held-files.ts";
import { isWithin, segmentsOf, type Volume } from "../files/volume.ts";
import { giveTree, makeParent, removeHeld, setOwner } from "./ownership.ts";
import type { Reaper } from "./reaper.ts";
import { cacheGroup, createUsers, houseUser, type User, type Users } from "./users.ts";

/** What a job or command says of the folders it works in. */
export interface Wanted {
  readonly writable: readonly string[];
  /**
   * What it must not see: what is open to a group is seen by those who write it, the rest by its
   * user alone.
   */
  readonly hidden?: readonly string[] | undefined;
  /** Of these, what others write at the same time. */
  readonly shared?: readonly string[];
  readonly cwd: string;
}

export interface Holders extends FileHolders {
  readonly users: Users;
  /** Whom a program runs as that may write these folders; they are made, and made that user's. */
  claim(wanted: Wanted): Promise<User>;
  /** Gives a folder that the guest made to a user. */
  give(place: string, uid: number): void;
  /** After the last program of a job: what its user left where all users may write. */
  sweep(user: User, wanted: Wanted): Promise<void>;
}

const isHouse = (path: string): boolean => /^(repo|sync)(\/|$)/.test(path);
/** Filled once, by a job that may, and read by all. */
const isReadByAll = (path: string): boolean => isHouse(path) || /^setup-cache\//.test(path);
const isCache = (path: string): boolean => /^cache(\/|$)/.test(path);
const setgid = 0o2000;

// Run as who owns the folder, whose group is given to it.
const openToGroup = `cd -- "$1" && chgrp -Rh "$2" . && chmod -R g+rwX . && find . -type d -exec chmod g+s {} + && chmod "$3" .`;
// What was moved there from elsewhere, or made for its owner alone.
const mendShared = `cd -- "$1" && find . -user "$2" ! -type l \\( ! -group "$3" -o ! -perm -060 \\) -exec chgrp -h "$3" {} + -exec chmod g+rwX {} +`;
/** Where every user may make files; what lies there is memory. */
const commonPlaces = ["/tmp", "/dev/shm", "/dev/mqueue"] as const;

interface Parts {
  readonly volume: Volume;
  readonly worker: FileWorker;
  readonly reaper: Reaper;
}

/**
 * Takes over a volume, also one of an earlier version, where all belonged to one user, or one that
 * was restored.
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
      const found = lstatSync(at(segments.slice(0, depth).join("/")), { throwIfNoEntry: false });
      if (found === undefined) return null;
      if (found.uid !== 0 && (found.isDirectory() || depth < segments.length)) return found.uid;
    }
    return null;
  };
  /** Makes the folder the user's, unless it lies in one that is somebody's already. */
  const take = async (path: string, uid: number): Promise<void> => {
    const segments = segmentsOf(path);
    if (segments.length === 0) throw new GuestFault(400, "path", "the volume's root cannot be given away");
    const outer = holderOf(path);
    // In a folder of another's it may write what that lets it.
    if (outer !== null && (isHouse(path) || isCache(path) || outer === uid))
      return void (await worker.ask(outer, { call: "make", path }));
    if (outer !== null && outer !== houseUser)
      throw new GuestFault(403, "forbidden", `${path} lies in a folder of another job's`);
    for (let depth = 1; depth < segments.length; depth += 1) makeParent(at(segments.slice(0, depth).join("/")));
    const place = at(path);
    await mkdir(place, { recursive: true, mode: 0o700 });
    const found = lstatSync(place);
    if (!found.isDirectory()) throw new GuestFault(400, "path", `${path} is no folder`);
    if (found.uid !== uid) {
      if (users.isLiving(found.uid) && found.uid !== houseUser)
        throw new GuestFault(409, "running", `${path} belongs to a job that still runs`);
      await giveTree(place, uid, users.isLiving);
      if (isReadByAll(path)) setOwner(place, { uid, gid: uid, mode: 0o755 });
    }
    if (uid !== houseUser) held.set(segments.join("/"), uid);
  };
  const shareCache = async (): Promise<number> => {
    const found = lstatSync(at("cache"), { throwIfNoEntry: false });
    if (found?.gid === cacheGroup && found.uid === houseUser) return cacheGroup;
    await mkdir(at("cache"), { recursive: true, mode: 0o700 });
    await giveTree(at("cache"), houseUser, users.isLiving);
    return openTo(houseUser, "cache", cacheGroup, "3770");
  };
  const openTo = async (uid: number, path: string, group: number, mode: string): Promise<number> => {
    const done = await reaper.run({ uid, gid: uid, groups: [group] }, openToGroup, [at(path), String(group), mode]);
    if (done !== 0) throw new GuestFault(500, "internal", `${path} could not be opened to those who share it`);
    return group;
  };
  const share = async (path: string): Promise<number> => {
    const holder = jobUserOf(path) ?? users.next();
    await take(path, holder);
    const { mode, gid } = lstatSync(at(path));
    return (mode & setgid) !== 0 ? gid : openTo(holder, path, holder, "2770");
  };
  /** The group by which a folder that is shared already is open. */
  const groupOf = (path: string): number[] => {
    const found = lstatSync(at(path), { throwIfNoEntry: false });
    return found !== undefined && (found.mode & setgid) !== 0 ? [found.gid] : [];
  };
  /** Whose it is; what an earlier version left, or was restored, is nobody's yet. */
  const jobUserOf = (path: string): number | null => {
    if (isHouse(path)) return houseUser;
    const uid = holderOf(path, true);
    return uid === houseUser ? null : uid;
  };
  const claimNow: Holders["claim"] = async ({ writable, shared = [], cwd }) => {
    const own = writable.filter((path) => !isCache(path) && !shared.includes(path));
    const asked = own.length > 0 || writable.length > 0 ? own : [cwd];
    const before = asked.map(jobUserOf).find((uid) => uid !== null);
    const uid = before ?? (writable.length === 0 ? houseUser : users.next());
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
    // One after the other: two that open the same folder would take it from each other.
    claim: (wanted) => {
      const mine = turn.then(() => claimNow(wanted));
      turn = mine.catch(() => undefined); // Its caller is told; the next one only waits.
      return mine;
    },
    give: (place, uid) => setOwner(place, { uid, gid: uid, mode: 0o700 }),
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
        await reaper.run({ uid, gid: uid, groups }, mendShared, [at(path), String(uid), String(group)]);
      }
      if (uid === houseUser) return;
      await sweepPlaces(uid);
      if (hasMemory(uid)) await reaper.run({ uid, gid: uid }, "ipcrm --all", []);
    },
  };
}

/** The folders that users hold: those of other users than root, seen from the top. */
function findHeld(root: string): Map<string, number> {
  const held = new Map<string, number>();
  const look = (folder: string): void => {
    for (const name of readdirSync(join(root, folder))) {
      const path = folder === "" ? name : `${folder}/${name}`;
      const found = lstatSync(join(root, path), { throwIfNoEntry: false });
      if (found === undefined || !found.isDirectory() || name === ".guest") continue;
      if (found.uid === 0) look(path);
      else held.set(path, found.uid);
    }
  };
  look("");
  return held;
}

async function sweepPlaces(uid: number): Promise<void> {
  for (const place of commonPlaces) {
    for (const name of namesIn(place)) {
      const found = lstatSync(join(place, name), { throwIfNoEntry: false });
      if (found?.uid === uid) await removeHeld(join(place, name));
    }
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // Not every system has each of these.
  }
}

/** Whether the user left shared memory, semaphores or queues of the older kind. */
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
