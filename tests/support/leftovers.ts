import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { lookForDocker, type Made, madeInDocker } from "./docker.ts";

// A run of the tests has its own folder for temporary files, which also identifies its processes
// among those of other runs. When it is over, nothing may be left: no files, no
// processes, however they detached themselves, and no containers or volumes of Docker.

const waitMs = 20_000;

/**
 * The cluster that test files share is kept from run to run, and its server may be serving another
 * run by now.
 */
const sharedCluster = /node_modules\/\.cache\/wavesmith-tests-/;

let folder = "";
/** The resources that Docker had before. */
let before: ReadonlyMap<string, Made> = new Map();

export async function setup(): Promise<void> {
  // First: the bundler that it calls lives as long as this process does, and is not of the run.
  await lookForDocker();
  // A short name: sockets lie below.
  folder = mkdtempSync(join(tmpdir(), "wst-"));
  chmodSync(folder, 0o1777);
  process.env.TMPDIR = folder;
  before = await madeInDocker(folder);
}

/** Waits for what is still ending, then fails the run if anything is left. */
export async function teardown(): Promise<void> {
  const deadline = Date.now() + waitMs;
  let left = await everyLeftover();
  while (left.length > 0 && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    left = await everyLeftover();
  }
  if (left.length === 0) {
    // Another run may be using the shared server that was started in this one, through its socket
    // here.
    if (!isLent()) rmSync(folder, { recursive: true, force: true });
    return;
  }
  // Vitest only prints what a teardown throws.
  process.exitCode = 1;
  throw new Error(`the tests left behind:\n  ${left.join("\n  ")}`);
}

const everyLeftover = async (): Promise<string[]> => [...leftovers(), ...(await leftInDocker())];

/**
 * The resources that Docker has now and did not have before. An engine may serve other runs at the
 * same time, so only where everything is required, which is where a run is alone, does what may be
 * another's count.
 */
async function leftInDocker(): Promise<string[]> {
  const isAlone = process.env.WAVESMITH_REQUIRE === "all";
  const made = [...(await madeInDocker(folder))].filter(([key]) => !before.has(key));
  return made.filter(([, { isOurs }]) => isOurs || isAlone).map(([, { what }]) => what);
}

const isLent = (): boolean =>
  existsSync("/proc/self") &&
  readdirSync("/proc")
    .flatMap(processOfRun)
    .some(({ command, cwd }) => sharedCluster.test(`${command} ${cwd}`));

function leftovers(): string[] {
  // macOS has no /proc: there only files are looked for.
  const processes = existsSync("/proc/self") ? readdirSync("/proc").flatMap(processOfRun) : [];
  const shared = processes.filter(({ command, cwd }) => sharedCluster.test(`${command} ${cwd}`));
  const files = readdirSync(folder)
    .filter((name) => name.startsWith("wavesmith") && !(shared.length > 0 && name.startsWith("wavesmith-pg-")))
    .map((name) => join(folder, name))
    .filter((path) => !shared.some(({ command }) => command.includes(path)));
  const strays = processes.filter((one) => !shared.includes(one) && !isOfShared(one, shared));
  return [...files, ...strays.map(({ pid, command }) => `process ${pid}: ${command.slice(0, 200)}`)];
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
  readonly cwd: string;
}

const isOfShared = (one: Process, shared: readonly Process[]): boolean => shared.some(({ pid }) => pid === one.parent);

/**
 * A process that names the run's folder, works in it, has it as its own for temporary files or as a
 * mount.
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
    return []; // It ended meanwhile, or belongs to somebody else.
  }
}
