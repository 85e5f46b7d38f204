// The users that programs in a container run as.
// W1. A job has a user of its own. Its number is not given out again while anything is left that
// belongs to it.
// W2. What a launch makes has a group of its own, which nothing it starts can take off: by it a
// stage's processes are told from those of a service of the same job.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GuestFault, systemCode } from "../faults.ts";

/**
 * Does what the guest itself has done on the volume, and owns what volumes of earlier versions
 * hold.
 */
export const houseUser = 10_001;
/** Of those who may write the caches that jobs share. */
export const cacheGroup = 10_002;
/** Who ends other users' processes is really this one. */
export const reaperUser = 10_003;
/** The image names so many (sandbox-image/Dockerfile): programs ask for the name of their user. */
const pool = { first: 20_000, size: 4_000 } as const;
const launchGroups = { first: 30_000, size: 30_000 } as const;

/** Whom a program runs as. */
export interface User {
  readonly uid: number;
  /** Folders that several jobs write belong to these. */
  readonly groups: readonly number[];
}

export interface Users {
  /** A user to whom nothing belongs. Fails with `no-process` when each of them owns something. */
  next(): number;
  isLiving(uid: number): boolean;
  /** A launch begins: its group, and what is to be called once nothing of it is left. */
  begin(uid: number): { readonly group: number; readonly end: () => void };
  /** How many launches of this user there are. */
  launches(uid: number): number;
}

/** Users are given out in turn, from where an earlier guest stopped. */
export function createUsers(ownFolder: string, isOwner: (uid: number) => boolean): Users {
  const file = join(ownFolder, "next-user");
  const living = new Map<number, number>();
  const groups = new Set<number>();
  let nextUser = readNumber(file);
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

function readNumber(file: string): number {
  try {
    return Number(readFileSync(file, "utf8")) || 0;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return 0;
    throw error;
  }
}
