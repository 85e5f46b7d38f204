import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { environmentFor } from "../../src/guest/isolation/isolation.ts";
import { createMemoryWatch, outOfMemoryKills } from "../../src/guest/isolation/out-of-memory.ts";
import { adoptedOf, type LaunchFacts, membersOf, type ProcessFacts } from "../../src/guest/isolation/strays.ts";

describe("the owner of a process", () => {
  const process = (pid: number, more: Partial<ProcessFacts> & { marked?: string } = {}): ProcessFacts => {
    const { marked = null, ...rest } = more;
    return { pid, parent: 1, session: pid, ticks: pid, mark: () => marked, ...rest };
  };
  const launch = (pid: number, mark = "a.1"): LaunchFacts => ({
    isMark: (found) => found === mark,
    first: { pid, ticks: pid },
    known: new Set(),
  });
  const pids = (found: readonly ProcessFacts[]): number[] => found.map(({ pid }) => pid).sort((a, b) => a - b);
  const own = new Set([1, 2]);

  it("is shown by its mark, its session, its parents, or what was seen before", () => {
    const seen = { ...launch(10), known: new Set(["15:15"]) };
    const table = [
      process(11, { marked: "a.1" }),
      process(12, { session: 10 }),
      process(13, { session: 11 }),
      process(14, { parent: 13 }),
      process(15),
      process(16, { parent: 15 }),
      process(17, { marked: "b.1" }),
      process(18),
    ];
    expect(pids(membersOf(seen, table))).toEqual([11, 12, 13, 14, 15, 16]);
  });

  it("is nobody if it is older, reuses a process id, or came in from outside", () => {
    const table = [
      process(9, { marked: "a.1", session: 10 }),
      process(15, { ticks: 99 }),
      process(20, { parent: 0, session: 0 }),
      process(21, { marked: "a.1", session: 0 }),
    ];
    expect(pids(membersOf({ ...launch(10), known: new Set(["15:15"]) }, table))).toEqual([21]);
  });

  it("is the ending launch if init adopted it, unless an older one runs", () => {
    const table = [process(2), process(30), process(31, { parent: 30 }), process(32, { parent: 0 })];
    expect(pids(adoptedOf(launch(20), [], { table, own }))).toEqual([30, 31]);
    expect(pids(adoptedOf(launch(20), [launch(40, "b.1")], { table, own }))).toEqual([30, 31]);
    expect(pids(adoptedOf(launch(20), [launch(10, "b.1")], { table, own }))).toEqual([]);
    expect(pids(adoptedOf(launch(35), [], { table, own }))).toEqual([]);
  });

  it("is never the ending launch if the process shows that it is another's", () => {
    const table = [
      process(50, { marked: "b.1" }),
      process(51, { session: 40 }),
      process(52, { parent: 51 }),
      process(53),
    ];
    expect(pids(adoptedOf(launch(20), [launch(40, "b.1")], { table, own }))).toEqual([]);
    expect(pids(adoptedOf(launch(45), [launch(60, "c.1")], { table: [process(53)], own }))).toEqual([53]);
  });

  it("is certain once the last launch has ended: nothing started since the first is left, and the guest never ends itself", () => {
    const launches = fc.uniqueArray(fc.integer({ min: 3, max: 60 }), { minLength: 1, maxLength: 5 });
    const born = fc.uniqueArray(fc.integer({ min: 61, max: 99 }), { maxLength: 8 });
    fc.assert(
      fc.property(launches, born, fc.infiniteStream(fc.nat()), (starts, strays, random) => {
        let table = [process(1, { parent: 0 }), process(2), ...strays.map((pid) => process(pid))];
        let running = starts.map((pid) => launch(pid, `${pid}.1`));
        while (running.length > 0) {
          const ending = running[random.next().value % running.length]!;
          running = running.filter((one) => one !== ending);
          const gone = adoptedOf(ending, running, { table, own });
          table = table.filter((one) => !gone.includes(one));
        }
        expect(pids(table)).toEqual([1, 2]);
      }),
    );
  });
});

describe("out of memory", () => {
  const counting = async (files: Record<string, string>): Promise<number | null> => {
    const root = mkdtempSync(join(tmpdir(), "wavesmith-memory-test-"));
    try {
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(root, name)), { recursive: true });
        writeFileSync(join(root, name), text);
      }
      return await outOfMemoryKills(`${root}/`);
    } finally {
      rmSync(root, { recursive: true });
    }
  };

  it("is counted by both versions of groups, in containers and outside", async () => {
    const v2 = "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n";
    const v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n";
    expect(await counting({ "sys/fs/cgroup/memory.events": v2 })).toBe(2);
    expect(await counting({ "sys/fs/cgroup/memory/memory.oom_control": v1 })).toBe(7);
    const unified = { "proc/self/cgroup": "0::/user.slice/me\n", "sys/fs/cgroup/user.slice/me/memory.events": v2 };
    expect(await counting({ ...unified, "sys/fs/cgroup/memory.events": "oom_kill 99\n" })).toBe(2);
    const groups = "9:name=systemd:/x\n4:cpu,memory:/docker/id\n";
    const below = { "proc/self/cgroup": groups, "sys/fs/cgroup/memory/docker/id/memory.oom_control": v1 };
    expect(await counting(below)).toBe(7);
    // In a container with cgroups of version 1 the path is the host's, and only the group is
    // mounted.
    expect(await counting({ "proc/self/cgroup": groups, "sys/fs/cgroup/memory/memory.oom_control": v1 })).toBe(7);
    expect(await counting({})).toBeNull();
  });

  it("is reported for a killed program, and for one that failed by itself", async () => {
    let kills = 0;
    const watch = createMemoryWatch(async () => kills);
    const alone = await watch.begin();
    kills += 1;
    expect(await alone(1)).toBe(true);
    const [one, other, third] = [await watch.begin(), await watch.begin(), await watch.begin()];
    kills += 1;
    expect([await one(137), await other(1), await third(0)]).toEqual([true, false, false]);
    const later = await watch.begin();
    expect(await later(137)).toBe(false);
    const passed = await watch.begin();
    kills += 1;
    expect(await passed(0)).toBe(false);
  });

  it("is not reported if nothing counts it", async () => {
    const watched = await createMemoryWatch(async () => null).begin();
    expect(await watched(137)).toBe(false);
  });
});

describe("the environment of a launch", () => {
  it("takes the caller's values, in upper or lower case", () => {
    const shared = { HTTP_PROXY: "ours", http_proxy: "ours", NO_PROXY: "ours" };
    expect(environmentFor({ PATH: "/bin", HOME: "/h" }, shared, { Http_Proxy: "theirs", HOME: "/own" })).toEqual({
      PATH: "/bin",
      HOME: "/own",
      NO_PROXY: "ours",
      Http_Proxy: "theirs",
    });
  });
});
