import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Command, type CommandPlace, createCommandPlace, peakMemoryMiB } from "../support/command.ts";

// The real command on one data directory, with an embedded Postgres, sandboxes and git.

describe("the command, on a bad day", { timeout: 180_000 }, () => {
  let place: CommandPlace;
  beforeAll(() => {
    place = createCommandPlace();
  });
  afterAll(() => {
    place.close();
  });

  const idOf = (command: Command): string => /bld_\w+/.exec(command.text())![0];
  const wait = "while ! test -e ../../../cache/go; do sleep 0.05; done";

  /** Two tasks, the first of which waits until `letGo`. */
  const waiting = (name: string) => {
    projects += 1;
    return place.plan(name, [
      { id: "first", run: `echo ran >> ../../../cache/ran; ${wait}; echo ${name} > first`, retries: 0 },
      { id: "second", dependsOn: ["first"], run: "cp first second" },
    ]);
  };
  let projects = 0;
  const caches = () =>
    readdirSync(join(place.data, "volumes")).map((name) => join(place.data, "volumes", name, "cache"));
  /** Resolves once the scripts of all started tasks are running. */
  const atWork = () =>
    expect
      .poll(() => caches().filter((cache) => existsSync(join(cache, "ran"))).length, { timeout: 60_000 })
      .toBe(projects);
  const letGo = (): void => {
    for (const cache of caches()) writeFileSync(join(cache, "go"), "");
  };
  async function completed(command: Command, name: string): Promise<void> {
    expect([await command.ended, command.text()]).toEqual([0, expect.stringContaining("2 of 2 tasks completed")]);
    const [, repository] = /fetch it: git fetch (\S+) main/.exec(command.text())!;
    const show = ["-C", repository!, "show", "main:second"];
    expect(execFileSync("git", show, { encoding: "utf8" })).toBe(`${name}\n`);
    const attempts = (await place.run("status", idOf(command), "--json")).text;
    expect(JSON.parse(attempts).tasks.map((task: { attempts: number }) => task.attempts)).toEqual([1, 1]);
  }

  it("reports every fault of a plan in one message, and creates nothing", async () => {
    const file = join(place.folder, "faulty.yaml");
    writeFileSync(
      file,
      `name: faulty
tasks:
  - { id: a, dependsOn: [b], run: "true", timeout: soon }
  - { id: b, dependsOn: [a], run: "true" }
  - { id: a, run: "true" }
  - { id: c, dependsOn: [nowhere], run: "true", writes: ["../out"] }
  - { id: d, agent: stranger, instructions: Do it., colour: red }
secrets: [NOT_SET_ANYWHERE]
`,
    );
    const { code, text } = await place.run("build", file);
    expect(code).toBe(2);
    for (const fault of ["duration", "a -> b -> a", "nowhere", "../out", "stranger", "colour", "NOT_SET_ANYWHERE"])
      expect(text).toContain(fault);
    expect(text).toContain(`8 faults in ${file}: nothing was started`);
    expect(existsSync(place.data)).toBe(false);
  });

  it("builds two projects at once on a data directory that is new to both, and lists them meanwhile", async () => {
    const names = ["north", "south"];
    const builds = names.map((name) => place.start("build", waiting(name)));
    await Promise.all(builds.map((build) => build.said("first: started")));
    await atWork();
    const looks = await Promise.all([
      place.run("status"),
      place.run("builds"),
      ...builds.map((build) => place.run("status", idOf(build))),
    ]);
    expect(looks.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    for (const name of names) expect(looks[1]!.text).toMatch(new RegExp(`${name} +running`));
    for (const look of looks.slice(2)) expect(look.text).toContain("first (default): running");
    letGo();
    for (const [index, name] of names.entries()) await completed(builds[index]!, name);
  });

  it("continues when Postgres is killed in mid-wave: nothing is lost, and no work is repeated", async () => {
    const build = place.start("build", waiting("east"));
    await build.said("first: started");
    await atWork();
    const pid = place.postgres();
    process.kill(pid, "SIGKILL");
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
    letGo();
    await completed(build, "east");
  });

  it("keeps its memory and its database small when a task prints 200 MB", async () => {
    const flood = "echo begin; head -c 200000000 /dev/zero | tr '\\0' x | fold -w 99; echo end";
    const build = place.start("build", place.plan("flood", [{ id: "a", run: `${flood}; echo a > a` }]));
    await build.said("a: started");
    const pid = build.child.pid!;
    const before = peakMemoryMiB(pid);
    let most = before;
    const looking = setInterval(() => {
      most = peakMemoryMiB(pid) ?? most;
    }, 20);
    const code = await build.ended.finally(() => clearInterval(looking));
    expect([code, build.text()]).toEqual([0, expect.stringContaining("1 of 1 task completed")]);
    if (before !== null) expect(most! - before).toBeLessThan(120);
    const logs = await place.run("logs", idOf(build));
    expect(logs.text.length).toBeLessThan(12 * 1024 * 1024);
    expect(logs.text).toMatch(/begin[\s\S]*bytes of output dropped here[\s\S]*end/);
  });
});
