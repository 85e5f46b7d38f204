import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect } from "vitest";
import { type TestDatabase, testDatabase } from "./database.ts";
import { runJsonProcess } from "./json-process.ts";
import { createRandom, seedsToTry } from "./random-plan.ts";

// Runs a process that kills itself at crash points, and others that take over, until one reaches
// the end. Every run of the tests tries some points, by a seed it prints. A failure prints the
// command that repeats it. By hand:
//   every point   WAVESMITH_CRASH_POINTS=all npx vitest run tests/faults/crash-points.test.ts
//   some of them  WAVESMITH_CRASH_POINTS=join-wave.after-commit,guest.exec.before npx vitest run …
//   many samples  WAVESMITH_SEEDS=100-140 npx vitest run …
//   the n-th time each is reached by a process: WAVESMITH_CRASH_OCCURRENCE=2 besides

/** A line of such a process's output, which is JSON. */
export type CrashLine =
  | { readonly type: "killed"; readonly point: string; readonly fired: readonly string[] }
  | {
      readonly type: "ended";
      readonly status: string;
      readonly reason: string | null;
      readonly fired: readonly string[];
    }
  | { readonly type: "warning"; readonly message: string };

/** The input that every process gets, besides its own. */
export interface CrashInput {
  readonly project: string;
  /** Dies at the first of these points to be reached for the `occurrence`-th time; none: never. */
  readonly points: readonly string[];
  readonly occurrence: number;
  /** How many processes came before this one. */
  readonly turn: number;
}

export const asked = process.env.WAVESMITH_CRASH_POINTS ?? "";
const occurrence = Number(process.env.WAVESMITH_CRASH_OCCURRENCE ?? "1");
/** The time limit for one process: many times what it needs. */
const patienceMs = 480_000;

export interface CrashCase {
  readonly points: readonly string[];
  readonly named: string;
}

/** The points this run dies at, and how many of them in one life. */
export function crashCases(points: readonly string[], perLife: number, sample = perLife): CrashCase[] {
  if (asked !== "") {
    const wanted = asked === "all" ? points : asked.split(",").filter((point) => points.includes(point));
    return deal(wanted, perLife).map((some) => ({ points: some, named: some.join(", ") }));
  }
  return seedsToTry([Math.trunc(Date.now() / 1000) % 1_000_000]).map((seed) => ({
    points: createRandom(seed).some(points, sample),
    named: `WAVESMITH_SEEDS=${seed}`,
  }));
}

/** Spreads the points, so that those of one life are far apart. */
function deal(points: readonly string[], most: number): string[][] {
  const lives = Math.ceil(points.length / most);
  return Array.from({ length: lives }, (_, index) => points.filter((_point, at) => at % lives === index));
}

export interface CrashPlace {
  readonly dataDir: string;
  readonly project: string;
  readonly database: TestDatabase;
  remove(): Promise<void>;
}

/** A data directory and a database for one life. */
async function makePlace(): Promise<CrashPlace> {
  const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-crash-"));
  const database = await testDatabase();
  return {
    dataDir,
    project: basename(dataDir).toLowerCase(),
    database,
    async remove() {
      for (const { pid } of processesOf(dataDir)) process.kill(pid, "SIGKILL"); // only a failed test leaves any
      await database.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** A life interrupted by crashes, and its input. */
export interface CrashTest {
  /** The bundled program of the process. */
  readonly program: string;
  /** Additional input of the process. */
  readonly more?: object;
  readonly env?: Readonly<Record<string, string>>;
  /** The `vitest run` arguments that repeat it. */
  readonly test: string;
  /** Throws unless everything is as it must be at the end, however the build got there. */
  readonly check: (place: CrashPlace, lines: readonly CrashLine[]) => Promise<void>;
}

/**
 * Runs one life with a death at each of these points, and checks its end. Resolves with every point
 * that was reached. A failure includes what the processes printed, and how to repeat the run.
 */
export async function dieAt(points: readonly string[], crash: CrashTest): Promise<string[]> {
  const place = await makePlace();
  const lines: CrashLine[] = [];
  try {
    await runToEnd({ ...crash, place, points }, lines);
    expect(lines.at(-1)).toMatchObject({ type: "ended", status: "completed", reason: null });
    await crash.check(place, lines);
    if (occurrence === 1) expect(killedIn(lines), "each point is reached once").toEqual([...points].sort());
    return firedIn(lines);
  } catch (error) {
    if (error instanceof Error) error.message += retold(lines, points, crash.test);
    throw error;
  } finally {
    await place.remove();
  }
}

interface CrashLife extends Pick<CrashTest, "program" | "more" | "env"> {
  readonly place: CrashPlace;
  readonly points: readonly string[];
}

/**
 * Runs one process after another, each up to the next point, and the last one to the end. Collects
 * their output.
 */
async function runToEnd(life: CrashLife, lines: CrashLine[]): Promise<void> {
  let left = life.points;
  for (let turn = 0; ; turn += 1) {
    await run(life, { project: life.place.project, points: left, occurrence, turn }, lines);
    const last = lines.at(-1);
    if (last?.type !== "killed") return;
    const at = left.indexOf(last.point);
    left = left.filter((_, index) => index !== at);
  }
}

async function run({ place, program, more, env }: CrashLife, input: CrashInput, lines: CrashLine[]): Promise<void> {
  const { code, signal, errors, ...said } = await runJsonProcess<CrashLine>({
    program,
    input: { ...more, ...input },
    env: { ...env, WAVESMITH_DATA: place.dataDir, DATABASE_URL: place.database.url },
    patienceMs,
  });
  lines.push(...said.lines);
  const isAsked = code === 0 || (signal === "SIGKILL" && lines.at(-1)?.type === "killed");
  if (!isAsked) throw new Error(`a process to be killed at ${input.points} ended with ${code ?? signal}: ${errors}`);
}

/** Every point that was reached. */
const firedIn = (lines: readonly CrashLine[]): string[] =>
  [...new Set(lines.flatMap((line) => ("fired" in line ? line.fired : [])))].sort();

/** The points at which processes died. */
const killedIn = (lines: readonly CrashLine[]): string[] =>
  lines.flatMap((line) => (line.type === "killed" ? line.point : [])).sort();

/** The output and the command that repeats the run, for a failure. */
function retold(lines: readonly CrashLine[], points: readonly string[], test: string): string {
  const short = lines.map((line) => JSON.stringify("fired" in line ? { ...line, fired: line.fired.length } : line));
  const nth = occurrence === 1 ? "" : `WAVESMITH_CRASH_OCCURRENCE=${occurrence} `;
  const again = `${nth}WAVESMITH_CRASH_POINTS=${points.join(",")} npx vitest run ${test}`;
  return `\n\n${short.join("\n")}\n\nAgain: ${again}`;
}

/**
 * Finds processes that name the data directory, work in it, or have it in their environment or
 * mounts.
 */
export function processesOf(dataDir: string): { pid: number; text: string }[] {
  return readdirSync("/proc").flatMap((name) => {
    const pid = Number(name);
    if (!/^\d+$/.test(name) || pid === process.pid) return [];
    try {
      const texts = ["cmdline", "environ", "mountinfo"].map((file) => readFileSync(`/proc/${pid}/${file}`, "utf8"));
      const isOfIt = [...texts, readlinkSync(`/proc/${pid}/cwd`)].some((text) => text.includes(basename(dataDir)));
      return isOfIt ? [{ pid, text: `${pid}: ${texts[0]!.replaceAll("\0", " ").slice(0, 200)}` }] : [];
    } catch {
      return []; // It has just ended, or we may not look into it.
    }
  });
}
