import { type ChildProcess, spawn } from "node:child_process";
import { open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { present } from "../../domain/known.ts";
import type { Context } from "../context.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { logFolder } from "../parts.ts";

// `build --detach` starts the same command in its own session, which a closed terminal does
// not reach. That process tells us its build's id over a channel, and prints to a file.

const option = "--detach";
/** Takes the place of `--detach` in the background process. */
const backgroundOption = "--in-background";

/** The message from the background process to the one that started it. */
interface Announcement {
  readonly buildId: string;
}

/** `build … --detach`: starts the build in the background and returns once it is announced. */
export async function detach(context: Context): Promise<number> {
  const folder = logFolder(await context.config());
  const startLog = join(folder, `starting-${process.pid}.log`);
  const log = await open(startLog, "w", 0o600);
  const child = spawn(process.execPath, [...process.execArgv, ...backgroundWords(process.argv.slice(1))], {
    detached: true,
    stdio: ["ignore", log.fd, log.fd, "ipc"],
  });
  const interrupts = watchInterrupts(process);
  // It cancels what it has begun and ends, and we report that.
  interrupts.on(() => child.kill("SIGTERM"));
  try {
    const buildId = await startOf(child);
    if (buildId === null) return await printFailure(context, startLog, child);
    const kept = join(folder, `${buildId}.log`);
    await rename(startLog, kept);
    child.disconnect();
    child.unref();
    printStart(context, { buildId, log: kept, pid: present(child.pid, "its process id") });
    return exit.ok;
  } finally {
    interrupts.dispose();
    await log.close();
  }
}

/** Tells the process that started us in the background which build this is. */
export function announceBuild(buildId: string): void {
  // If it is gone, nobody waits for the id.
  const announcement: Announcement = { buildId };
  process.send?.(announcement, undefined, undefined, () => undefined);
}

const backgroundWords = (words: readonly string[]): string[] => {
  const end = words.indexOf("--");
  return words.map((word, index) => (word === option && (end === -1 || index < end) ? backgroundOption : word));
};

/** Resolves with the id of the child's build; null if it ends without one. */
function startOf(child: ChildProcess): Promise<string | null> {
  return new Promise((resolve, reject) => {
    child.once("message", (message) => resolve((message as Announcement).buildId));
    child.once("exit", () => resolve(null));
    child.once("error", reject);
  });
}

/** Prints what the child said before it ended, and returns its exit code. */
async function printFailure({ out, json }: Context, log: string, child: ChildProcess): Promise<number> {
  const text = await readFile(log, "utf8");
  const isObject = (line: string): boolean => line.startsWith("{");
  for (const line of text.trimEnd().split("\n")) {
    if (json && isObject(line)) out.line(line);
    else out.note(line);
  }
  await rm(log);
  return child.exitCode ?? exit.failed;
}

interface Started {
  readonly buildId: string;
  readonly log: string;
  readonly pid: number;
}

function printStart({ out, hints, json }: Context, { buildId, log, pid }: Started): void {
  if (json) {
    out.json({ type: "build.started", buildId, log, pid });
    return;
  }
  out.line(`build ${buildId} is running in the background`);
  out.line(`  look:   ${hints.command(`attach ${buildId}`)}`);
  out.line(`  cancel: ${hints.command(`cancel ${buildId}`)}`);
  out.line(`  log:    ${log}`);
}
