import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { crashPoints } from "../../src/coordinator/crash-points.ts";
import { projectIdFor } from "../../src/coordinator/start-build.ts";
import { buildIdForEvent } from "../../src/domain/ids.ts";
import { engineCrashPoints } from "../../src/engine/crash-points.ts";
import { createStore } from "../../src/store/store.ts";
import { checkDependencies, checkParallel, checkWaves, gitIn, readEnded, readTree } from "../support/build-checks.ts";
import { crashPlanTree } from "../support/crash-plan.ts";
import type { CrashProcessInput, CrashProcessLine } from "../support/crash-process.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { createRandom, seedsToTry } from "../support/random-plan.ts";
import { requires } from "../support/require.ts";

// A process is killed (SIGKILL) at a crash point and another goes on; or the sandbox is, and the same one goes on. One
// build dies several times. Every run tries some points, by a seed it prints; a failure prints the command that does
// the same again. By hand:
//   every point   WAVESMITH_CRASH_POINTS=all npx vitest run tests/faults/crash-points.test.ts
//   some of them  WAVESMITH_CRASH_POINTS=join-wave.after-commit,guest.exec.before npx vitest run …
//   many samples  WAVESMITH_SEEDS=100-140 npx vitest run …
//   the n-th time each is reached by a process: WAVESMITH_CRASH_OCCURRENCE=2 besides

const program = fileURLToPath(new URL("../support/crash-process.ts", import.meta.url));
/**
 * Points that the build need not pass: crons come by the clock, no snapshot is taken, no idle sandbox stopped, no tree
 * shared (tests/e2e/kill-shared.test.ts), and there is no critic (tests/faults/second-look.test.ts).
 */
const besideBuild =
  /^(engine\.cron|ask-second-look|snapshots|workspace\.restorePaths|reserve-model-call|settle-model-call|modelCalls|buildSpending|driver\.(pack|restore)|sandbox-(idle|lost|restored?))\./;
const allPoints: readonly string[] = [...crashPoints, ...engineCrashPoints];
const everyPoint = allPoints.filter((point) => !besideBuild.test(point));
/** Calls during which a sandbox may die. */
const callsOfSandbox = everyPoint.filter((point) => /^(guest|driver|workspace)\.|^keep\./.test(point));

type Victim = CrashProcessInput["victim"];
/** How many points one build dies at: a task whose sandbox is lost is repeated three times at most. */
const perBuild: Readonly<Record<Victim, number>> = { process: 10, sandbox: 2 };

const asked = process.env.WAVESMITH_CRASH_POINTS ?? "";
/** For the whole of what one process does: many times what it takes. */
const patienceMs = 480_000;
const occurrence = Number(process.env.WAVESMITH_CRASH_OCCURRENCE ?? "1");

interface Case {
  readonly points: readonly string[];
  readonly named: string;
}

function casesOf(victim: Victim): Case[] {
  const points = victim === "process" ? everyPoint : callsOfSandbox;
  if (asked !== "") {
    const wanted = asked === "all" ? points : asked.split(",").filter((point) => points.includes(point));
    return deal(wanted, perBuild[victim]).map((some) => ({ points: some, named: some.join(", ") }));
  }
  return seedsToTry([Math.trunc(Date.now() / 1000) % 1_000_000]).map((seed) => ({
    points: createRandom(seed).some(points, perBuild[victim]),
    named: `WAVESMITH_SEEDS=${seed}`,
  }));
}

/** Dealt out, so that the points of one build are far from one another. */
function deal(points: readonly string[], most: number): string[][] {
  const builds = Math.ceil(points.length / most);
  return Array.from({ length: builds }, (_, index) => points.filter((_point, at) => at % builds === index));
}

const cases = { process: casesOf("process"), sandbox: casesOf("sandbox") };
const named = new Set([...cases.process, ...cases.sandbox].map((one) => one.named));
console.info(`crash points of this run: ${asked === "" ? [...named].join(", ") : asked}`);

it("has crash points of these names only", () => {
  const known = new Set(everyPoint);
  expect(asked.split(",").filter((name) => !["", "all"].includes(name) && !known.has(name))).toEqual([]);
});

describe("a process that is killed at a crash point", () => {
  it("can be at each of the points that are listed", { timeout: 900_000 }, async () => {
    expect(await atAll([], "process")).toEqual([...everyPoint].sort());
  });

  it.each(cases.process)(
    "is gone on for by another to the same end: $named",
    { timeout: 1_800_000 },
    async ({ points }) => {
      await atAll(points, "process");
    },
  );
});

describe("a sandbox that is killed at a crash point", () => {
  it.each(cases.sandbox)(
    "is made again, and the build comes to the same end: $named",
    { timeout: 900_000 },
    async ({ points }) => {
      await atAll(points, "sandbox");
    },
  );
});

/**
 * One build that dies at all of these points; resolves with every point that was reached. What its processes said, and
 * how to do it again, is added to a failure.
 */
async function atAll(points: readonly string[], victim: Victim): Promise<string[]> {
  const place = await makePlace();
  const lines: CrashProcessLine[] = [];
  try {
    await runToEnd(place, { points, victim }, lines);
    expect(lines.at(-1)).toMatchObject({ type: "ended", status: "completed", reason: null });
    await checkEnd(place);
    const killed = lines.flatMap((line) => (line.type === "killed" ? line.point : []));
    if (occurrence === 1) expect([...killed].sort(), "each point is reached once").toEqual([...points].sort());
    const fired = firedIn(lines);
    expect(fired.filter((point) => !allPoints.includes(point))).toEqual([]);
    return fired.filter((point) => everyPoint.includes(point));
  } catch (error) {
    if (error instanceof Error) error.message += `\n\n${told(lines)}\n\nAgain: ${commandFor(points, victim)}`;
    throw error;
  } finally {
    await place.remove();
  }
}

const firedIn = (lines: readonly CrashProcessLine[]): string[] =>
  [...new Set(lines.flatMap((line) => ("fired" in line ? line.fired : [])))].sort();

const told = (lines: readonly CrashProcessLine[]): string =>
  lines.map((line) => JSON.stringify("fired" in line ? { ...line, fired: line.fired.length } : line)).join("\n");

function commandFor(points: readonly string[], victim: Victim): string {
  const nth = occurrence === 1 ? "" : `WAVESMITH_CRASH_OCCURRENCE=${occurrence} `;
  const names = `WAVESMITH_CRASH_POINTS=${points.join(",")}`;
  return `${nth}${names} npx vitest run tests/faults/crash-points.test.ts -t "a ${victim} that is killed"`;
}

interface Place {
  readonly dataDir: string;
  readonly project: string;
  readonly database: TestDatabase;
  remove(): Promise<void>;
}

async function makePlace(): Promise<Place> {
  const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-crash-"));
  const database = await testDatabase();
  return {
    dataDir,
    project: basename(dataDir).toLowerCase(),
    database,
    async remove() {
      for (const { pid } of processesOf(dataDir)) process.kill(pid, "SIGKILL"); // only a test that failed leaves any
      await database.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Runs one process after the other, each to the next of the points, the last to the end. Collects what they say. */
async function runToEnd(
  place: Place,
  { points, victim }: Pick<CrashProcessInput, "points" | "victim">,
  lines: CrashProcessLine[],
): Promise<void> {
  let left = points;
  for (;;) {
    await run(place, { project: place.project, points: left, occurrence, victim }, lines);
    const last = lines.at(-1);
    if (last?.type !== "killed") return;
    left = left.filter((point) => point !== last.point);
  }
}

async function run(place: Place, input: CrashProcessInput, lines: CrashProcessLine[]): Promise<void> {
  const child = spawn(process.execPath, ["--import", "tsx", program, JSON.stringify(input)], {
    env: {
      ...process.env,
      WAVESMITH_DATA: place.dataDir,
      DATABASE_URL: place.database.url,
      WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  child.stderr.on("data", (data: Buffer) => {
    errors += data.toString();
  });
  // It says what it waits for before it is killed.
  const patience = setTimeout(() => child.kill("SIGTERM"), patienceMs);
  const end = setTimeout(() => child.kill("SIGKILL"), patienceMs + 20_000);
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    // Not `close`: what the killed process started may hold its pipes.
    child.once("exit", (...how) => setTimeout(resolve, 50, how));
  });
  clearTimeout(patience);
  clearTimeout(end);
  const whole = output.slice(0, output.lastIndexOf("\n") + 1);
  for (const line of whole.split("\n").filter(Boolean)) lines.push(JSON.parse(line) as CrashProcessLine);
  const isAsked = code === 0 || (signal === "SIGKILL" && lines.at(-1)?.type === "killed");
  if (!isAsked) throw new Error(`a process to be killed at ${input.points} ended with ${code ?? signal}: ${errors}`);
}

/** What must be so at the end, however it came about. */
async function checkEnd(place: Place): Promise<void> {
  const { dataDir, project, database } = place;
  const projectId = projectIdFor("default", project);
  const buildId = buildIdForEvent(`project/build.requested:${project}:0`);
  const repository = join(dataDir, "repositories", `${projectId}.git`);
  const store = createStore(database.pool);
  const ended = await readEnded(store, repository, buildId);
  expect(Object.fromEntries(readTree(repository, "main"))).toEqual(crashPlanTree);
  expect(gitIn(repository, ["rev-parse", "main"]).toString().trim()).toBe(ended.build.headSha);
  expect(gitIn(repository, ["fsck", "--strict", "--no-dangling", "--no-progress"]).toString().trim()).toBe("");
  for (const check of [checkDependencies, checkWaves, checkParallel]) check(ended);
  for (const attempt of ended.attempts) expect(attempt.status, attempt.ref).toBe("settled");
  expect(ended.tasks.map((task) => task.status)).toEqual(ended.tasks.map(() => "completed"));
  for (const wave of ended.waves) if (wave.status === "passed") expect(wave.deliveredAt).not.toBeNull();
  await checkRows(database, store);
  await expect.poll(() => processesOf(dataDir).map(({ text }) => text), { timeout: 20_000 }).toEqual([]);
  expect(leftOn(join(dataDir, "volumes", projectId), buildId)).toEqual([]);
  expect(locksIn(repository)).toEqual([]);
}

async function checkRows(database: TestDatabase, store: ReturnType<typeof createStore>): Promise<void> {
  const jobs = await store.jobs.list({});
  expect(jobs.filter((job) => job.status !== "ended")).toEqual([]);
  expect(jobs.filter((job) => job.leaseOwner !== null)).toEqual([]);
  expect(await store.outbox.list({ sentAt: null })).toEqual([]);
  expect(await store.gateRuns.list({ status: ["requested", "running"] })).toEqual([]);
  // A cron may come at any time, and goes on with whoever comes next.
  const open = await database.pool.query(
    "select from engine.runs where status = 'running' and function_id !~ '-(sandbox|snapshot)-'",
  );
  expect(open.rowCount).toBe(0);
  const held = await database.pool.query("select from engine.jobs where holder is not null");
  expect(held.rowCount).toBe(0);
}

function leftOn(volume: string, buildId: string): string[] {
  // What was on its way into `sync` is swept when it is an hour old.
  return [`trees/${buildId}`, "handover", "keep"].flatMap((folder) => {
    const path = join(volume, folder);
    return existsSync(path) ? readdirSync(path).map((name) => `${folder}/${name}`) : [];
  });
}

const locksIn = (repository: string): string[] =>
  readdirSync(repository, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".lock"));

/** Processes that name the data directory, work in it, or have it in their environment or mounts. */
function processesOf(dataDir: string): { pid: number; text: string }[] {
  return readdirSync("/proc").flatMap((name) => {
    const pid = Number(name);
    if (!/^\d+$/.test(name) || pid === process.pid) return [];
    try {
      const texts = ["cmdline", "environ", "mountinfo"].map((file) => readFileSync(`/proc/${pid}/${file}`, "utf8"));
      const isOfIt = [...texts, readlinkSync(`/proc/${pid}/cwd`)].some((text) => text.includes(basename(dataDir)));
      return isOfIt ? [{ pid, text: `${pid}: ${texts[0]!.replaceAll("\0", " ").slice(0, 200)}` }] : [];
    } catch {
      return []; // It has just ended, or is not ours to look into.
    }
  });
}
