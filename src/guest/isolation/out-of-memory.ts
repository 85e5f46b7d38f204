// Whether a program was ended because memory ran out, told from the kernel's own count of such
// endings around us.
import { readFile } from "node:fs/promises";

/**
 * How many processes were killed for want of memory around us so far; null where the system does
 * not say.
 */
export async function outOfMemoryKills(root = "/"): Promise<number | null> {
  for (const path of await counters(root)) {
    const text = await readFile(`${root}${path}`, "utf8").catch(() => null); // Often not mounted: best effort by design.
    const found = text === null ? null : /^oom_kill (\d+)$/m.exec(text);
    if (found?.[1] !== undefined) return Number(found[1]);
  }
  return null;
}

/**
 * Where the count may be: in a container the group's own folder is the root of what is mounted,
 * elsewhere it is below.
 */
async function counters(root: string): Promise<string[]> {
  const groups = await readFile(`${root}proc/self/cgroup`, "utf8").catch(() => ""); // No groups here.
  const unified = /^0::\/(.*)$/m.exec(groups)?.[1];
  const memory = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:\/(.*)$/m.exec(groups)?.[1];
  return [
    ...(unified ? [`sys/fs/cgroup/${unified}/memory.events`] : []),
    ...(memory ? [`sys/fs/cgroup/memory/${memory}/memory.oom_control`] : []),
    "sys/fs/cgroup/memory.events",
    "sys/fs/cgroup/memory/memory.oom_control",
  ];
}

export interface MemoryWatch {
  /**
   * Begins to watch one program; what it returns says, once it has ended so, whether that was for
   * want of memory.
   */
  begin(): Promise<(exitCode: number | null) => Promise<boolean>>;
}

/**
 * Attributes the kernel's count, which says not who was killed: a program that was ended by SIGKILL
 * meanwhile is taken for it, and one that failed in another way (as when one of its children was
 * killed) when it was the only one that ran.
 */
export function createMemoryWatch(count: () => Promise<number | null> = outOfMemoryKills): MemoryWatch {
  const watched = new Set<{ isAlone: boolean }>();
  return {
    begin: async () => {
      const mine = { isAlone: watched.size === 0 };
      for (const other of watched) other.isAlone = false;
      watched.add(mine);
      const before = await count();
      return async (exitCode) => {
        const after = await count();
        watched.delete(mine);
        const hasFailed = exitCode === 137 || (exitCode !== 0 && mine.isAlone);
        return hasFailed && before !== null && after !== null && after > before;
      };
    },
  };
}
