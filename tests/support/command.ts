import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { requires } from "./require.ts";

const program = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));

export interface Command {
  readonly child: ChildProcess;
  /** Its output so far, on both streams. */
  text(): string;
  /** Resolves once it has printed this; fails if it ends without printing it. */
  said(what: string): Promise<void>;
  /** Its exit code; null if a signal ended it. */
  readonly ended: Promise<number | null>;
}

export interface CommandPlace {
  readonly folder: string;
  readonly data: string;
  /** Writes a plan file; returns its path. */
  plan(name: string, tasks: Record<string, unknown>[], rest?: Record<string, unknown>): string;
  /** Starts the real `wavesmith`, with an embedded Postgres. */
  start(...words: string[]): Command;
  /** Starts it on its own terminal, with util-linux. */
  startOnTerminal(...words: string[]): Command;
  /** Runs the command to its end. */
  run(...words: string[]): Promise<{ code: number | null; text: string }>;
  /** The same with different settings. */
  with(settings: Readonly<Record<string, string>>): Pick<CommandPlace, "start" | "run">;
  /** Runs it to its end from a folder below this one; it has to find its data directory itself. */
  runIn(folder: string, ...words: string[]): Promise<{ code: number | null; text: string }>;
  /** The process number of the data directory's Postgres. */
  postgres(): number;
  /** The folder of its socket, which is outside of the data directory; null if none runs. */
  socketFolder(): string | null;
  /** Ends the commands that still run, and removes everything. */
  close(): void;
}

/** Creates a data directory for the real command, with these additional settings. */
export function createCommandPlace(settings: Readonly<Record<string, string>> = {}): CommandPlace {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "wavesmith-command-")));
  const data = join(folder, "data");
  const running = new Set<ChildProcess>();
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    TMPDIR: tmpdir(),
    WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
    ...settings,
  };
  const keep = (child: ChildProcess): Command => {
    running.add(child);
    return watched(child, () => running.delete(child));
  };
  const startIn = (environment: NodeJS.ProcessEnv, words: readonly string[]): Command =>
    keep(spawn(process.execPath, [program, "--data", data, ...words], { cwd: folder, env: environment }));
  const place: CommandPlace = {
    folder,
    data,
    plan(name, tasks, rest = {}) {
      const path = join(folder, `${name}.json`);
      writeFileSync(path, JSON.stringify({ name, network: "none", ...rest, tasks }));
      return path;
    },
    start: (...words) => startIn(env, words),
    startOnTerminal(...words) {
      const line = [process.execPath, program, "--data", data, ...words].map((word) => `'${word}'`).join(" ");
      return keep(spawn("script", ["-qec", line, "/dev/null"], { cwd: folder, env }));
    },
    async runIn(cwd, ...words) {
      return toItsEnd(keep(spawn(process.execPath, [program, ...words], { cwd, env })));
    },
    run: (...words) => toItsEnd(place.start(...words)),
    with(more) {
      const start = (...words: string[]) => startIn({ ...env, ...more }, words);
      return { start, run: (...words) => toItsEnd(start(...words)) };
    },
    postgres: () => Number.parseInt(readFileSync(join(data, "postgres", "postmaster.pid"), "utf8"), 10),
    socketFolder() {
      const file = join(data, "postgres", "postmaster.pid");
      const [, , , , socketFolder = ""] = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
      return socketFolder === "" ? null : socketFolder;
    },
    close() {
      const socketFolder = place.socketFolder();
      for (const child of running) child.kill("SIGKILL");
      // A failed test leaves its sandboxes and its Postgres running.
      for (const pid of processesOf(folder)) endNow(pid);
      rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
      if (socketFolder !== null) rmSync(socketFolder, { recursive: true, force: true });
    },
  };
  return place;
}

const toItsEnd = async (command: Command) => ({ code: await command.ended, text: command.text() });

/** Finds processes that name the folder, work in it, or have it in their environment or mounts. */
function processesOf(folder: string): number[] {
  if (!existsSync("/proc/self")) return []; // macOS
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      const texts = ["cmdline", "environ", "mountinfo"].map((file) => readFileSync(`/proc/${name}/${file}`, "utf8"));
      const places = [...texts, readlinkSync(`/proc/${name}/cwd`)];
      return places.some((text) => text.includes(basename(folder))) ? [Number(name)] : [];
    } catch {
      return []; // It has just ended, or we may not look into it.
    }
  });
}

function endNow(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended together with another one.
  }
}

function watched(child: ChildProcess, onEnd: () => void): Command {
  let text = "";
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
  }
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      onEnd();
      resolve(code);
    });
  });
  const said = async (what: string): Promise<void> => {
    const deadline = Date.now() + 60_000;
    while (!text.includes(what)) {
      if (Date.now() > deadline || child.exitCode !== null) throw new Error(`it never said ${what}:\n${text}`);
      await new Promise((wake) => setTimeout(wake, 25));
    }
  };
  return { child, text: () => text, said, ended };
}

/**
 * The most memory a process has used at once, in MiB; null if it is gone or the system does not
 * say.
 */
export function peakMemoryMiB(pid: number): number | null {
  const file = `/proc/${pid}/status`;
  const found = existsSync(file) ? /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(file, "utf8")) : null;
  return found === null ? null : Number(found[1]) / 1024;
}
