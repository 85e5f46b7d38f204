import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { lookForDocker, type Made, madeInDocker } from "./docker.ts";

// Each test run has its own folder for temporary files, which also tells its processes from those
// of other runs. When the run is over, nothing may be left: no files, no processes, however they
// detached themselves, and no Docker containers or volumes.

const waitMs = 20_000;

/**
 * The cluster that test files share is kept between runs, and its server may be serving another run
 * by now.
 */
const sharedCluster = /node_modules\/\.cache\/wavesmith-tests-/;

let folder = "";
/** The Docker resources that existed before. */
let before: ReadonlyMap<string, Made> = new Map();

export async function setup(): Promise<void> {
  // First, because the bundler that it calls lives as long as this process does and does not belong
  // to the run.
  await lookForDocker();
  // A short name, because the paths of sockets below it must be short.
  folder = mkdtempSync(join(tmpdir(), "wst-"));
  chmodSync(folder, 0o1777);
  process.env.TMPDIR = folder;
  before = await madeInDocker(folder);
}

/**
 * Waits for whatever is still ending, then fails the run if anything is left, and removes it. Tests
 * that fail leave things behind, which would fill the disk run by run.
 */
export async function teardown(): Promise<void> {
  const deadline = Date.now() + waitMs;
  let left = await everyLeftover();
  while (left.length > 0 && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    left = await everyLeftover();
  }
  for (const { pid } of strays()) endProcess(pid);
  // Another run may be using the shared server that this run started, through its socket here.
  const isLent = processesOfRun().some(isOfCluster);
  if (!isLent) rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  if (left.length === 0) return;
  // Vitest only prints what a teardown throws.
  process.exitCode = 1;
  throw new Error(`the tests left behind:\n  ${left.join("\n  ")}`);
}

const everyLeftover = async (): Promise<string[]> => [...leftovers(), ...(await leftInDocker())];

/**
 * Lists the Docker resources that are new since the start. Other runs may use the engine at the
 * same time, so resources that may be theirs count only where everything is required, because there
 * a run is alone.
 */
async function leftInDocker(): Promise<string[]> {
  const isAlone = process.env.WAVESMITH_REQUIRE === "all";
  const made = [...(await madeInDocker(folder))].filter(([key]) => !before.has(key));
  return made.filter(([, { isOurs }]) => isOurs || isAlone).map(([, { what }]) => what);
}

function leftovers(): string[] {
  const shared = processesOfRun().filter(isOfCluster);
  const files = readdirSync(folder)
    .filter((name) => name.startsWith("wavesmith") && !(shared.length > 0 && name.startsWith("wavesmith-pg-")))
    .map((name) => join(folder, name))
    .filter((path) => !shared.some(({ command }) => command.includes(path)));
  return [...files.map(described), ...strays().map(({ pid, command }) => `process ${pid}: ${command.slice(0, 200)}`)];
}

/** Adds what is inside a folder, because that shows who made it. */
function described(path: string): string {
  try {
    const made = statSync(path).birthtime.toISOString();
    const inside = readdirSync(path, { recursive: true }).map(String);
    return `${path}, made at ${made}, ${inside.length} inside: ${inside.slice(-5).join(", ")}`;
  } catch {
    return path; // It is a file, or gone by now.
  }
}

/** Lists the run's processes that do not belong to the shared cluster. */
function strays(): Process[] {
  const processes = processesOfRun();
  const shared = processes.filter(isOfCluster);
  return processes.filter((one) => !shared.includes(one) && !isOfShared(one, shared));
}

/** macOS has no /proc, so we only look for files there. */
const processesOfRun = (): Process[] => (existsSync("/proc/self") ? readdirSync("/proc").flatMap(processOfRun) : []);

const isOfCluster = ({ command, cwd }: Process): boolean => sharedCluster.test(`${command} ${cwd}`);

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile, or belongs to another user.
  }
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
  readonly cwd: string;
}

const isOfShared = (one: Process, shared: readonly Process[]): boolean => shared.some(({ pid }) => pid === one.parent);

/**
 * A process that names the run's folder, works in it, or has it as its folder for temporary files
 * or as a mount.
 */
function processOfRun(name: string): Process[] {
  if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
  try {
    const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    const texts = ["environ", "mountinfo"].map((file) => readFileSync(`/proc/${name}/${file}`, "utf8"));
    const cwd = readlinkSync(`/proc/${name}/cwd`);
    const places = [command, cwd, ...texts];
    if (!places.some((text) => text.includes(basename(folder)))) return [];
    const parent = Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, "utf8"))?.[1]);
    return [{ pid: Number(name), parent, command, cwd }];
  } catch {
    return []; // It has ended meanwhile, or belongs to another user.
  }
}
