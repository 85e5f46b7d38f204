import { execFileSync } from "node:child_process";
import { expect } from "vitest";
import type { GuestClient } from "../../src/sandbox/port.ts";
import type { AttemptRow, BuildRow, Store, TaskRow, WaveRow } from "../../src/store/port.ts";
import { untilNextLook } from "./looks.ts";
import { type ExpectedTree, generatedPath, generatedText } from "./random-plan.ts";

// Checks that hold for every build that has ended, whatever its plan. They read the rows and the
// repository, and share no code with the programs that wrote them.

/** A build that has ended, with everything that is kept of it. */
export interface Ended {
  readonly build: BuildRow;
  readonly tasks: readonly TaskRow[];
  readonly waves: readonly WaveRow[];
  readonly attempts: readonly AttemptRow[];
  /** Keys of the tasks each wave held, by its number. */
  readonly members: ReadonlyMap<number, readonly string[]>;
  readonly repository: string;
  readonly commits: ReadonlyMap<string, Commit>;
}

interface Commit {
  readonly parents: readonly string[];
  readonly build: string;
  readonly wave: string;
  readonly task: string;
  readonly agent: string;
  readonly attempt: string;
}

export async function readEnded(store: Store, repository: string, buildId: string): Promise<Ended> {
  const tasks = await store.tasks.list({ buildId }, { by: "position" });
  const waves = await store.waves.list({ buildId }, { by: "number" });
  const keyOf = new Map(tasks.map((task) => [task.id, task.key]));
  const members = new Map<number, string[]>();
  for (const wave of waves) {
    const held = await store.waveTasks.list({ waveId: wave.id });
    members.set(wave.number, held.map((row) => keyOf.get(row.taskId)!).sort());
  }
  return {
    build: await store.builds.get({ id: buildId }),
    tasks,
    waves,
    attempts: await store.attempts.list({ buildId }, { by: "createdAt" }),
    members,
    repository,
    commits: readCommits(repository),
  };
}

export function gitIn(repository: string, args: readonly string[], input?: string): Buffer {
  return execFileSync("git", ["-C", repository, ...args], {
    maxBuffer: 1 << 30,
    stdio: ["pipe", "pipe", "pipe"],
    ...(input === undefined ? {} : { input }),
  });
}

function readCommits(repository: string): Map<string, Commit> {
  const trailer = (key: string) => `%(trailers:key=Wavesmith-${key},valueonly,separator=%x2C)`;
  const format = ["%H", "%P", ...["Build", "Wave", "Task", "Agent", "Attempt"].map(trailer)].join("%x1f");
  const listed = gitIn(repository, ["log", "--all", "-z", `--format=${format}`]).toString();
  const records = listed.split("\0").filter((line) => line !== "");
  return new Map(
    records.map((line) => {
      const [sha = "", parents = "", build = "", wave = "", task = "", agent = "", attempt = ""] = line.split("\x1f");
      return [sha, { parents: parents.split(" ").filter(Boolean), build, wave, task, agent, attempt }];
    }),
  );
}

/** A commit and all its ancestors. */
export function ancestry(commits: ReadonlyMap<string, Commit>, tip: string): Set<string> {
  const found = new Set<string>();
  const open = [tip];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(commits.get(next)?.parents ?? []));
  }
  return found;
}

/**
 * W1: a task's waves come after the wave in which its dependencies were joined, and start from
 * their work.
 */
export function checkDependencies({ tasks, waves, attempts, members, commits }: Ended): void {
  const byKey = new Map(tasks.map((task) => [task.key, task]));
  const numberOf = new Map(waves.map((wave) => [wave.id, wave.number]));
  const below = new Map(waves.map((wave) => [wave.number, ancestry(commits, wave.baseSha)]));
  for (const [number, keys] of members) {
    for (const task of keys.map((key) => byKey.get(key)!)) {
      for (const needed of task.definition.dependsOn.map((key) => byKey.get(key)!)) {
        const said = `wave ${number}: ${task.key} needs ${needed.key}`;
        expect(needed.status, said).toBe("completed");
        expect(numberOf.get(needed.waveId!), said).toBeLessThan(number);
        if (needed.commitSha !== null) expect(below.get(number)!.has(needed.commitSha), said).toBe(true);
      }
    }
  }
  const bases = new Map(waves.map((wave) => [wave.id, wave.baseSha]));
  for (const attempt of attempts) {
    if (attempt.kind === "task") expect(attempt.baseSha, attempt.ref).toBe(bases.get(attempt.waveId));
  }
}

/**
 * W2: the cap, and no two tasks in a wave whose known writes overlap. Globs are a path or
 * `folder/**`.
 */
export function checkWaves({ build, tasks, members }: Ended): void {
  const byKey = new Map(tasks.map((task) => [task.key, task]));
  for (const [number, keys] of members) {
    const held = keys.map((key) => byKey.get(key)!);
    const perAgent = new Map<string, number>();
    for (const { agent } of held) perAgent.set(agent, (perAgent.get(agent) ?? 0) + 1);
    expect(Math.max(...perAgent.values())).toBeLessThanOrEqual(build.plan.limits.tasksPerAgentPerWave);
    held.forEach((task, index) => {
      for (const other of held.slice(index + 1)) {
        const meets = knownWrites(task, number).some((one) => knownWrites(other, number).some((two) => meet(one, two)));
        expect(meets, `wave ${number}: ${task.key} and ${other.key} write the same`).toBe(false);
      }
    });
  }
}

function knownWrites(task: TaskRow, before: number): string[] {
  const learned = task.conflicts.filter(({ waveNumber }) => waveNumber < before).flatMap(({ paths }) => paths);
  return [...(task.definition.writes ?? []), ...learned];
}

function meet(one: string, other: string): boolean {
  const within = (path: string, glob: string): boolean =>
    path === glob || (glob.endsWith("/**") && path.startsWith(glob.slice(0, -2)));
  return within(one, other) || within(other, one);
}

/** No more attempts run at once than the plan allows. */
export function checkParallel({ build, attempts }: Ended): void {
  const changes = attempts.flatMap((attempt) => [
    { at: attempt.createdAt.getTime(), by: 1 },
    { at: attempt.endedAt!.getTime(), by: -1 },
  ]);
  changes.sort((one, other) => one.at - other.at || one.by - other.by);
  let alive = 0;
  for (const { by } of changes) {
    alive += by;
    expect(alive).toBeLessThanOrEqual(build.plan.limits.maxParallelTasks!);
  }
}

/**
 * Each completed task has one joined commit (or no diff), and one good attempt for each time it was
 * joined or conflicted.
 */
export function checkAttempts({ build, tasks, attempts, commits }: Ended): void {
  const joined = ancestry(commits, build.headSha!);
  for (const attempt of attempts) expect(attempt.status, attempt.ref).toBe("settled");
  for (const task of tasks) {
    const own = attempts.filter((attempt) => attempt.taskId === task.id);
    const good = own.filter((attempt) => attempt.outcome === "succeeded");
    expect(good, `good attempts of ${task.key}`).toHaveLength(
      task.conflicts.length + (task.status === "completed" ? 1 : 0),
    );
    const inMain = own.filter((attempt) => attempt.commitSha !== null && joined.has(attempt.commitSha));
    const expected = task.status === "completed" && task.commitSha !== null ? [task.commitSha] : [];
    expect(
      inMain.map((attempt) => attempt.commitSha),
      `joined commits of ${task.key}`,
    ).toEqual(expected);
  }
}

/**
 * Every commit of main says who made it, and restore tags and branches of the waves are where the
 * rows say.
 */
export function checkRepository({ build, waves, attempts, tasks, commits, repository }: Ended): void {
  const git = (...args: string[]): string => gitIn(repository, args).toString().trim();
  expect(git("rev-parse", "main")).toBe(build.headSha);
  const before = ancestry(commits, build.baseSha!);
  const known = new Set(attempts.map(({ commitSha }) => commitSha));
  const keys = new Set(tasks.map((task) => task.key));
  for (const sha of ancestry(commits, build.headSha!)) {
    if (before.has(sha)) continue;
    const commit = commits.get(sha)!;
    expect(commit.build, sha).toBe(build.id);
    expect(Number(commit.wave), sha).toBeGreaterThan(0);
    if (commit.parents.length > 1) {
      expect(keys.has(commit.task), sha).toBe(true);
      continue;
    }
    expect(known.has(sha), `${sha} is no attempt's`).toBe(true);
    expect(commit.agent, sha).not.toBe("");
    expect(Number(commit.attempt), sha).toBeGreaterThan(0);
  }
  const tags = git("for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/tags/wavesmith-restore");
  const passed = waves.filter((wave) => wave.status === "passed");
  expect(tags.split("\n").sort()).toEqual(
    [`${build.id}/0 ${build.baseSha}`, ...passed.map((wave) => `${build.id}/${wave.number} ${wave.headSha}`)].sort(),
  );
  const fsck = gitIn(repository, ["fsck", "--strict", "--no-dangling", "--no-progress"]).toString();
  expect(fsck.trim()).toBe("");
}

/** The text of every file of a commit. */
export function readTree(repository: string, commit: string): Map<string, string> {
  const listed = gitIn(repository, ["ls-tree", "-r", "-z", commit]).toString().split("\0").filter(Boolean);
  const entries = listed.map((line) => ({ sha: line.split(/[ \t]/)[2]!, path: line.slice(line.indexOf("\t") + 1) }));
  const answer = gitIn(repository, ["cat-file", "--batch"], entries.map(({ sha }) => `${sha}\n`).join(""));
  const files = new Map<string, string>();
  let at = 0;
  for (const { path } of entries) {
    const header = answer.indexOf(10, at);
    const size = Number(answer.subarray(at, header).toString().split(" ")[2]);
    files.set(path, answer.subarray(header + 1, header + 1 + size).toString());
    at = header + 1 + size + 1;
  }
  return files;
}

/**
 * The tree of main matches the oracle. A generated file whose text the oracle does not know only
 * has to exist.
 */
export function checkTree({ build, repository }: Ended, expected: ExpectedTree): void {
  const files = readTree(repository, build.headSha!);
  if (!expected.files.has(generatedPath)) files.delete(generatedPath);
  const lines = new Map<string, string[]>();
  for (const path of expected.lines.keys()) {
    const text = files.get(path);
    files.delete(path);
    if (text !== undefined) lines.set(path, text.split("\n").slice(0, -1).sort());
  }
  expect(Object.fromEntries(files)).toEqual(Object.fromEntries(expected.files));
  expect(Object.fromEntries(lines)).toEqual(Object.fromEntries(expected.lines));
}

/** A file generated at a join matches the tree it was generated in. */
export function checkGenerated({ attempts, repository }: Ended): void {
  for (const attempt of attempts) {
    if (attempt.kind !== "generate") continue;
    expect(attempt.outcome).toBe("succeeded");
    const files = readTree(repository, attempt.commitSha ?? attempt.baseSha);
    expect(files.get(generatedPath)).toBe(generatedText(files));
  }
}

/**
 * Lists what a build left on its volume besides the joined tree: nothing, once its last steps are
 * done.
 */
export async function leftOnVolume(guest: GuestClient, buildId: string): Promise<string[]> {
  const folders = [`trees/${buildId}`, "handover", "keep", "sync"];
  const found = await Promise.all(
    folders.map(async (folder) => ((await guest.stat(folder)) === null ? [] : guest.list(folder))),
  );
  return found.flat().map((entry) => entry.path);
}

interface Driven {
  readonly app: { readonly store: Pick<Store, "builds"> };
  readonly warnings: readonly string[];
}

/**
 * Returns the build's row once it has ended or is waiting. A long build may take longer than the
 * fixture waits by default.
 */
export async function untilOver({ app, warnings }: Driven, buildId: string, timeoutMs = 110_000): Promise<BuildRow> {
  const startedMs = Date.now();
  for (;;) {
    const build = await app.store.builds.get({ id: buildId });
    if (["completed", "failed", "cancelled", "waiting"].includes(build.status)) return build;
    const waitedMs = Date.now() - startedMs;
    if (waitedMs > timeoutMs) throw new Error(`build ${buildId} does not end; warnings:\n${warnings.join("\n")}`);
    await untilNextLook(waitedMs);
  }
}
