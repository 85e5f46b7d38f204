// Detects whether a program was killed because memory ran out, from the kernel's counter of such
// kills in our control group.
import { readFile } from "node:fs/promises";

/**
 * Returns how many processes of our control group were killed so far because memory ran out; null
 * where the system does not say.
 */
export async function outOfMemoryKills(root = "/"): Promise<number | null> {
  for (const path of await counters(root)) {
    const text = await readFile(`${root}${path}`, "utf8").catch(() => null); // Often not mounted: best effort by design.
    const match = text === null ? null : /^oom_kill (\d+)$/m.exec(text);
    if (match?.[1] !== undefined) return Number(match[1]);
  }
  return null;
}

/**
 * Lists the files that may hold the counter: in a container the group's folder is the root of the
 * mount, elsewhere it is below.
 */
async function counters(root: string): Promise<string[]> {
  const groups = await readFile(`${root}proc/self/cgroup`, "utf8").catch(() => ""); // There are no control groups here.
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
   * Starts watching a program. After it has ended, call the returned function with its exit code to
   * learn whether memory ran out.
   */
  begin(): Promise<(exitCode: number | null) => Promise<boolean>>;
}

/**
 * Attributes the kernel's count, which does not say which process was killed: to a program that
 * ended by SIGKILL meanwhile, or to one that failed otherwise (as when one of its children was
 * killed) if it was the only one running.
 */
export function createMemoryWatch(count: () => Promise<number | null> = outOfMemoryKills): MemoryWatch {
  const watched = new Set<{ isAlone: boolean }>();
  return {
    begin: async () => {
      const entry = { isAlone: watched.size === 0 };
      for (const other of watched) other.isAlone = false;
      watched.add(entry);
      const before = await count();
      return async (exitCode) => {
        const after = await count();
        watched.delete(entry);
        const hasFailed = exitCode === 137 || (exitCode !== 0 && entry.isAlone);
        return hasFailed && before !== null && after !== null && after > before;
      };
    },
  };
}
