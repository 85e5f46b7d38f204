import { readFile } from "node:fs/promises";

/** Where a container's or a group's count of out-of-memory kills is, cgroup version 2 and 1. */
const counters: readonly (readonly [path: string, line: RegExp])[] = [
  ["/sys/fs/cgroup/memory.events", /^oom_kill (\d+)$/m],
  ["/sys/fs/cgroup/memory/memory.oom_control", /^oom_kill (\d+)$/m],
];

/** How many processes were killed for want of memory around us so far; null where the system does not say. */
export async function outOfMemoryKills(): Promise<number | null> {
  for (const [path, line] of counters) {
    const text = await readFile(path, "utf8").catch(() => null); // Often not mounted: best effort by design.
    const found = text === null ? null : line.exec(text);
    if (found !== null) return Number(found[1]);
  }
  return null;
}
