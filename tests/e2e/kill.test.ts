import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { eventually, processesSaying, sleepToken } from "../contract/guest-fixture.ts";
import {
  checkAttempts,
  checkDependencies,
  checkGenerated,
  checkParallel,
  checkRepository,
  checkTree,
  checkWaves,
  type Ended,
  readEnded,
} from "../support/build-checks.ts";
import type { BuildProcessInput, BuildProcessLine } from "../support/build-process.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { processesOf } from "../support/crash-runs.ts";
import { testDatabase } from "../support/database.ts";
import { createRandom, type Random, randomPlan, seedsToTry } from "../support/random-plan.ts";
import { requires } from "../support/require.ts";

// More: WAVESMITH_SEEDS=1-30 npx vitest run tests/e2e/kill.test.ts
// Odd seeds have an embedded Postgres of their own, even ones a database on a server.

const program = await bundledProgram("build-process");

/**
 * Records, outside the tree, that this attempt's script ran; then takes a while, so that kills hit
 * it.
 */
const before = `sed -n 's/^  "attempt": \\([0-9]*\\),$/'"$WAVESMITH_TASK"' \\1/p' "$WAVESMITH_TASK_FILE" >> ../../../cache/ran
sleep 0.3`;

describe("a build whose process is killed again and again", () => {
  it.each(seedsToTry([1, 2]).map((seed) => ({ seed })))(
    "comes to the end it would have had, with no finished work done again and nothing left: WAVESMITH_SEEDS=$seed",
    { timeout: 240_000 },
    async ({ seed }) => {
      const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-kill-"));
      const database = seed % 2 === 0 ? await testDatabase({ migrated: false }) : null;
      const place = { dataDir, url: database?.url ?? null };
      const random = createRandom(seed);
      const made = randomPlan(seed, { tasks: [5, 8], failures: false, before });
      const project = basename(dataDir).toLowerCase();
      try {
        const plan = { name: "killed", ...made.plan };
        const lines: BuildProcessLine[] = [];
        const kills = random.between(3, 6);
        for (let kill = 0; kill < kills; kill += 1) lines.push(...(await runAndKill(random, place, { project, plan })));
        lines.push(...(await run(place, { project, plan, crashAt: null }, () => undefined)));
        const started = lines.filter((line) => line.type === "started");
        expect(new Set(started.map((line) => line.buildId)).size).toBe(1);
        const end = lines.at(-1)!;
        await expect.poll(() => textsOf(dataDir), { timeout: 20_000 }).toEqual([]);
        const ended = await readRows(place, started[0]!);
        const details = JSON.stringify({ lines, attempts: ended.attempts }, null, 1);
        expect(end, details).toMatchObject({ type: "ended", status: "completed", reason: null });
        checkTree(ended, made.treeOf(new Set(made.tasks.map((task) => task.key))));
        for (const check of checks) check(ended);
        expect(ended.tasks.filter((task) => task.losses > 0).map((task) => task.key)).toEqual([]);
        // No kill is ever counted as the task's own failure.
        const failing = made.tasks.filter((task) => task.fate === "fails-once").map((task) => `${task.key} 1`);
        expect(failuresOf(ended), details).toEqual(failing.sort());
        if (end.type === "ended") expect(end.ran.trim().split("\n").sort()).toEqual(scriptsOf(ended));
        await expect.poll(() => textsOf(dataDir), { timeout: 20_000 }).toEqual([]);
      } finally {
        await database?.close();
        rmSync(dataDir, { recursive: true, force: true });
      }
    },
  );

  it("ends with its sandbox and database when nobody continues it, and goes on whenever somebody does", {
    timeout: 240_000,
  }, async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-kill-"));
    const place = { dataDir, url: null };
    const wait = "while ! test -e ../../../cache/go; do sleep 0.05; done";
    const token = sleepToken();
    const escapees = () => processesSaying(`sleep\0${token}`);
    const plan = {
      name: "killed",
      limits: { maxParallelTasks: 2 },
      tasks: [
        { id: "one", run: `${before}; echo 1 > one` },
        { id: "two", dependsOn: ["one"], run: `${before}; setsid sleep ${token} & ${wait}; cat one > two`, retries: 0 },
      ],
    };
    const input = { project: basename(dataDir).toLowerCase(), plan, crashAt: null };
    try {
      const lines = await run(place, { ...input, orphanLimitMs: 3_000 }, (line, kill) => {
        if (line?.type === "started") void eventually(() => escapees().length > 0, "it escaped").finally(kill);
      });
      await expect.poll(() => textsOf(dataDir), { timeout: 60_000 }).toEqual([]);
      expect(escapees()).toEqual([]);
      const started = lines.find((line) => line.type === "started")!;
      writeFileSync(join(dataDir, "volumes", started.projectId, "cache", "go"), "");
      const end = (await run(place, input, () => undefined)).at(-1)!;
      expect(end).toMatchObject({ type: "ended", status: "completed", reason: null });
      if (end.type === "ended") expect(end.ran).toBe("one 1\ntwo 1\ntwo 2\n");
      const ended = await readRows(place, started);
      for (const check of checks) check(ended);
      expect(ended.tasks.map(({ key, losses, retriesUsed }) => [key, losses, retriesUsed])).toEqual([
        ["one", 0, 0],
        ["two", 1, 0],
      ]);
      await expect.poll(() => textsOf(dataDir), { timeout: 20_000 }).toEqual([]);
    } finally {
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});

const checks = [checkDependencies, checkWaves, checkParallel, checkAttempts, checkRepository, checkGenerated];

/** Each attempt of a task ran its script once. */
const scriptsOf = ({ attempts, tasks }: Ended): string[] => {
  const keys = new Map(tasks.map((task) => [task.id, task.key]));
  return attempts
    .filter((attempt) => attempt.kind === "task")
    .map((attempt) => `${keys.get(attempt.taskId!)} ${attempt.number}`)
    .sort();
};

/** The attempts of tasks that did not succeed. */
const failuresOf = ({ attempts, tasks }: Ended): string[] => {
  const keys = new Map(tasks.map((task) => [task.id, task.key]));
  return attempts
    .filter((attempt) => attempt.kind === "task" && attempt.outcome !== "succeeded")
    .map((attempt) => `${keys.get(attempt.taskId!)} ${attempt.number}`)
    .sort();
};

interface Place {
  readonly dataDir: string;
  /** Null: the embedded Postgres of the data directory. */
  readonly url: string | null;
}

type Kill = (line: BuildProcessLine | null, kill: () => void) => void;

/**
 * Kills at a time measured from its start or from when it began to drive, or where a crash would be
 * most awkward.
 */
function runAndKill(
  random: Random,
  place: Place,
  input: Omit<BuildProcessInput, "crashAt">,
): Promise<BuildProcessLine[]> {
  const kind = random.pick(["spawned", "started", "started", "point", "point"]);
  if (kind === "point") return run(place, { ...input, crashAt: random.between(1, 150) }, () => undefined);
  const afterMs = kind === "spawned" ? random.between(300, 4_000) : random.between(0, 2_500);
  return run(place, { ...input, crashAt: null }, (line, kill) => {
    if ((kind === "spawned" && line === null) || (kind === "started" && line?.type === "started")) {
      setTimeout(kill, afterMs);
    }
  });
}

/** Runs the process until it ends or is killed; returns what it printed. */
async function run(place: Place, input: BuildProcessInput, on: Kill): Promise<BuildProcessLine[]> {
  const child = spawn(process.execPath, [program, JSON.stringify(input)], {
    env: { ...process.env, ...settings(place) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: BuildProcessLine[] = [];
  let errors = "";
  child.stderr.on("data", (data: Buffer) => {
    errors += data.toString();
  });
  on(null, () => child.kill("SIGKILL"));
  createInterface({ input: child.stdout }).on("line", (text) => {
    const line = JSON.parse(text) as BuildProcessLine;
    lines.push(line);
    on(line, () => child.kill("SIGKILL"));
  });
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    // Not `close`, because programs that the killed process started may hold its pipes.
    child.once("exit", (...how) => resolve(how));
  });
  if (code !== 0 && signal !== "SIGKILL") throw new Error(`the process ended with ${code ?? signal}: ${errors}`);
  return lines;
}

const settings = ({ dataDir, url }: Place): Record<string, string> => ({
  WAVESMITH_DATA: dataDir,
  DATABASE_URL: url ?? "", // An empty one counts as absent.
  WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
});

async function readRows(place: Place, started: { buildId: string; projectId: string }): Promise<Ended> {
  const config = loadConfig({ ...process.env, ...settings(place) });
  const app = await createApp({ config, warn: () => undefined });
  try {
    return await readEnded(app.store, app.ports.workspace.repositoryPath(started.projectId as never), started.buildId);
  } finally {
    await app.close();
  }
}

const textsOf = (dataDir: string): string[] => processesOf(dataDir).map(({ text }) => text);
