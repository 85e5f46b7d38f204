// The users that programs in a container run as.
// GU1. Each job has its own user. A user id is not given out again while anything belongs to it.
// GU2. Each launch has its own group, which its processes cannot drop. The group tells the
// processes of a stage from those of a service of the same job.
import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GuestFault, systemCode } from "../faults.ts";

/**
 * The user who runs the guest's own commands on the volume, and owns the files of volumes of
 * earlier versions.
 */
export const wavesmithUser = 10_001;
/** The group that may write the caches that jobs share. */
export const cacheGroup = 10_002;
/** The real user of the process that kills other users' processes. */
export const reaperUser = 10_003;
/**
 * The image has names for these users (sandbox-image/Dockerfile), because programs look up their
 * user's name.
 */
const pool = { first: 20_000, size: 4_000 } as const;
const launchGroups = { first: 30_000, size: 30_000 } as const;

/** The user that a program runs as. */
export interface User {
  readonly uid: number;
  /** The groups of folders that several jobs write. */
  readonly groups: readonly number[];
}

export interface Users {
  /**
   * Returns a user to whom nothing belongs. Fails with `no-process` when every user owns something.
   */
  next(): number;
  isLiving(uid: number): boolean;
  /** Records a launch: returns its group, and the function to call once nothing of it is left. */
  begin(uid: number): { readonly group: number; readonly end: () => void };
  /** Returns how many launches of this user are running. */
  launches(uid: number): number;
}

/**
 * Gives out users in rotation, starting where an earlier guest stopped. The first one begins
 * anywhere: the kernel bounds what a user may have (inotify instances, pipe buffers) across all
 * containers of the machine, so they should seldom share a user.
 */
export function createUsers(ownFolder: string, isOwner: (uid: number) => boolean): Users {
  const file = join(ownFolder, "next-user");
  const living = new Map<number, number>();
  const groups = new Set<number>();
  let nextUser = readNumber(file) ?? randomInt(pool.size);
  let nextGroup = 0;
  const launches = (uid: number): number => living.get(uid) ?? 0;
  return {
    launches,
    isLiving: (uid) => launches(uid) > 0,
    next: () => {
      for (let tried = 0; tried < pool.size; tried += 1) {
        const uid = pool.first + (nextUser++ % pool.size);
        if (launches(uid) > 0 || isOwner(uid)) continue;
        writeFileSync(file, String(nextUser % pool.size), { mode: 0o600 });
        return uid;
      }
      throw new GuestFault(503, "no-process", `all ${pool.size} users of this sandbox own files of its volume`);
    },
    begin: (uid) => {
      let group = launchGroups.first + (nextGroup++ % launchGroups.size);
      while (groups.has(group)) group = launchGroups.first + (nextGroup++ % launchGroups.size);
      groups.add(group);
      living.set(uid, launches(uid) + 1);
      const end = (): void => {
        groups.delete(group);
        if (launches(uid) > 1) living.set(uid, launches(uid) - 1);
        else living.delete(uid);
      };
      return { group, end };
    },
  };
}

/** Returns the number in the file; null when there is none. */
function readNumber(file: string): number | null {
  try {
    const number = Number.parseInt(readFileSync(file, "utf8"), 10);
    return Number.isInteger(number) ? number : null;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return null;
    throw error;
  }
}
