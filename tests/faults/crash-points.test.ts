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
import { createRandom } from "../support/random-plan.ts";
import { requires } from "../support/require.ts";

// Every crash point, each with a process killed there (SIGKILL) and another that goes on; one build dies several times.
// By seed, some of them: WAVESMITH_SEEDS=1.  All:  WAVESMITH_CRASH_POINTS=all npx vitest run tests/faults/crash-points.test.ts
// Some again: WAVESMITH_CRASH_POINTS=join-wave.after-commit,guest.exec.before   The n-th time each is reached: WAVESMITH_CRASH_OCCURRENCE=2
// The same ones as a run that failed: WAVESMITH_SEEDS=1234

const program = fileURLToPath(new URL("../support/crash-process.ts", import.meta.url));
// Crons are not used by the flow; the embedded engine's adoption is what a resumed build begins with.
const unreached = new Set<string>(["engine.cron.before-commit", "engine.cron.after-commit"]);
const everyPoint = [...crashPoints, ...engineCrashPoints].filter((point) => !unreached.has(point));
const perNormalRun = 12;
const perBuild = 12;

const asked = process.env.WAVESMITH_CRASH_POINTS ?? "";
const occurrence = Number(process.env.WAVESMITH_CRASH_OCCURRENCE ?? "1");
const seed = Number(process.env.WAVESMITH_SEEDS ?? Math.trunc(Date.now() / 1000) % 1_000_000);

function pointsOfRun(): string[] {
  if (asked === "all") return everyPoint;
  if (asked !== "") return asked.split(",");
  console.info(`crash points of this run: WAVESMITH_SEEDS=${seed}`);
  return createRandom(seed).some(everyPoint, perNormalRun);
}

/** Dealt out, so that the points of one build are far from one another. */
function deal(points: readonly string[], perBuild: number): string[][] {
  const builds = Math.ceil(points.length / perBuild);
  return Array.from({ length: builds }, (_, index) => points.filter((_point, at) => at % builds === index));
}

// Asked for by hand until every point holds: see above. A skip is said.
const wanted = asked !== "" || process.env.WAVESMITH_SEEDS !== undefined;
if (!wanted) console.warn("SKIPPED: crash points run with WAVESMITH_CRASH_POINTS=all (or some of their names)");

describe.runIf(wanted)("a process that is killed at a crash point", () => {
  it("can be at each of the points that are listed, and at no other", { timeout: 240_000 }, async () => {
    const place = await makePlace();
    try {
      const { lines } = await runToEnd(place, []);
      const end = lines.at(-1)!;
      expect(end, JSON.stringify(lines)).toMatchObject({ type: "ended", status: "completed" });
      await checkEnd(place);
      const fired = new Set(end.type === "ended" ? end.fired : []);
      // Only a process that finds work of a dead one adopts it.
      const listed = everyPoint.filter((point) => !point.startsWith("engine.adopt"));
      expect([...fired].filter((point) => !everyPoint.includes(point))).toEqual([]);
      expect(listed.filter((point) => !fired.has(point))).toEqual([]);
    } finally {
      await place.remove();
    }
  });

  it.each(deal(pointsOfRun(), perBuild).map((points) => ({ points, named: points.join(", ") })))(
    "is gone on for by another to the same end: $named",
    { timeout: 900_000 },
    async ({ points }) => {
      const place = await makePlace();
      try {
        const { lines, left } = await runToEnd(place, points);
        expect(lines.at(-1), JSON.stringify(lines, null, 1)).toMatchObject({
          type: "ended",
          status: "completed",
          reason: null,
        });
        await checkEnd(place);
        if (occurrence === 1) expect(left, "points that were not reached").toEqual([]);
      } finally {
        await place.remove();
      }
    },
  );
});

/** Calls during which a sandbox may die; twice a build, as a task is lost three times at most. */
const callsOfSandbox = everyPoint.filter((point) => /^(guest|driver|workspace)\.|^keep\./.test(point));

describe.runIf(wanted)("a sandbox that is killed at a crash point", () => {
  const some = asked === "" ? createRandom(seed).some(callsOfSandbox, 2) : pointsOfRun();
  const points = some.filter((point) => callsOfSandbox.includes(point));
  it.each(deal(points, 2).map((pair) => ({ points: pair, named: pair.join(", ") })))(
    "is made again, and the build comes to the same end: $named",
    { timeout: 300_000 },
    async ({ points }) => {
      const place = await makePlace();
      try {
        const lines = await run(place, { project: place.project, points, occurrence, victim: "sandbox" });
        const ended = { type: "ended", status: "completed", reason: null };
        expect(lines.at(-1), JSON.stringify(lines, null, 1)).toMatchObject(ended);
        await checkEnd(place);
      } finally {
        await place.remove();
      }
    },
  );
});

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

/** Runs one process after the other, each to the next of the points, the last to the end. */
async function runToEnd(
  place: Place,
  points: readonly string[],
): Promise<{ lines: CrashProcessLine[]; left: string[] }> {
  const lines: CrashProcessLine[] = [];
  let left = [...points];
  for (;;) {
    const said = await run(place, { project: place.project, points: left, occurrence, victim: "process" });
    lines.push(...said);
    const last = said.at(-1);
    if (last?.type !== "killed") return { lines, left };
    left = left.filter((point) => point !== last.point);
  }
}

async function run(place: Place, input: CrashProcessInput): Promise<CrashProcessLine[]> {
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
  const patience = setTimeout(() => child.kill("SIGKILL"), 150_000);
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    // Not `close`: what the killed process started may hold its pipes.
    child.once("exit", (...how) => setTimeout(resolve, 50, how));
  });
  clearTimeout(patience);
  const lines = output
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as CrashProcessLine);
  const isAsked = code === 0 || (signal === "SIGKILL" && lines.at(-1)?.type === "killed");
  if (!isAsked) throw new Error(`a process with ${input.points} ended with ${code ?? signal}: ${output}\n${errors}`);
  return lines;
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
  const open = await database.pool.query("select from engine.runs where status = 'running'");
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
