// One stage of a job: its program, from the first byte of input to the last byte of output.
import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync } from "node:fs";
import { unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Launched } from "../isolation/isolation.ts";
import type { Loopback } from "../isolation/loopback.ts";
import type { User } from "../isolation/users.ts";
import { type GuestParts, nextMarker, type ScratchFolder, workingFolder } from "../parts.ts";
import type { StageSpec } from "../protocol.ts";
import type { JobInput } from "./input.ts";
import type { OutputCollector, StageOutput } from "./output.ts";
import { closeChildEnd } from "./pipes.ts";

export interface StageSurroundings {
  readonly parts: GuestParts;
  readonly owner: string;
  /** The job's own folder. */
  readonly folder: string;
  readonly writable: readonly string[];
  readonly hidden: readonly string[];
  /** The user that all of the job's programs run as. */
  readonly user: User | null;
  readonly scratch: ScratchFolder;
  /** Null where jobs share the guest's loopback. */
  readonly loopback: Loopback | null;
  readonly output: OutputCollector;
  readonly input: JobInput;
}

export interface StageRun {
  /** Resolves once nothing of the stage is left and its output is written. */
  readonly done: Promise<StageEnd>;
  stop(graceMs: number): void;
}

export interface StageEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly outOfMemory: boolean;
  readonly output: StageOutput;
  /** Why its program never ran; null when it ran. */
  readonly error: string | null;
}

/**
 * Starts a stage's program. Fails when its folder does not exist or is outside the volume, or when
 * the disk has no room for its input.
 */
export async function startStage(around: StageSurroundings, stage: StageSpec): Promise<StageRun> {
  const { parts } = around;
  const cwd = await workingFolder(parts, stage.cwd);
  const output = await parts.pipes.forOutput();
  const ranOutOfMemory = await parts.memory.begin();
  try {
    const input = await openInput(around, stage);
    const launched = parts.isolation.launch({
      ...launchIn(around, stage),
      argv: stage.argv,
      cwd,
      stdio: [input.childEnd, output.childEnd, output.childEnd],
      // A later stage may judge this one's work, so no process of it may remain.
      clears: true,
    });
    input.started(launched);
    const collected = around.output.collect(output.stream, stage.outputLimitBytes, launched.ended);
    return { done: endOf(around, { argv: stage.argv, cwd }, launched, collected, ranOutOfMemory), stop: launched.stop };
  } catch (error) {
    await ranOutOfMemory(null);
    output.stream.destroy();
    throw error;
  } finally {
    closeChildEnd(output);
  }
}

/** Returns what every program of a job is launched with; each call makes a new marker. */
export const launchIn = (around: StageSurroundings, { env }: StageSpec) => ({
  env,
  writable: around.writable,
  hidden: around.hidden,
  ...(around.loopback === null ? {} : { enter: around.loopback.enter }),
  scratch: around.scratch.path,
  marker: nextMarker(around.owner),
  user: around.user,
});

async function endOf(
  around: StageSurroundings,
  command: { argv: readonly string[]; cwd: string },
  launched: Launched,
  collected: Promise<StageOutput>,
  ranOutOfMemory: (exitCode: number | null) => Promise<boolean>,
): Promise<StageEnd> {
  const ending = await launched.ended;
  const output = await collected;
  const outOfMemory = await ranOutOfMemory(ending.exitCode);
  if (ending.ran) return { exitCode: ending.exitCode, signal: ending.signal, outOfMemory, output, error: null };
  const { exitCode, error } = around.parts.isolation.explainNoStart(command, ending, output.head);
  return { exitCode, signal: null, outOfMemory, output, error };
}

interface StageInput {
  readonly childEnd: number | "ignore";
  /** Does our part once the program has its end. */
  started(launched: Launched): void;
}

async function openInput(around: StageSurroundings, stage: StageSpec): Promise<StageInput> {
  if (stage.stdin !== null && stage.openStdin !== true) {
    const childEnd = await openTextAsFile(around.folder, stage.stdin);
    return { childEnd, started: () => closeSync(childEnd) };
  }
  if (stage.openStdin !== true) return { childEnd: "ignore", started: () => undefined };
  const pipe = await around.parts.pipes.forInput();
  const started = (launched: Launched): void => {
    closeChildEnd(pipe);
    if (stage.stdin !== null) pipe.stream.write(stage.stdin);
    // If the stored input cannot be read, the program sees its end.
    around.input.feed(pipe.stream).catch(() => pipe.stream.destroy());
    void launched.ended.then(() => pipe.stream.destroy());
  };
  return { childEnd: pipe.childEnd, started };
}

/**
 * Writes text to an open file without a name, which the program may read at any time, several times
 * or not at all.
 */
export async function openTextAsFile(folder: string, text: string): Promise<number> {
  const path = join(folder, `stdin-${randomBytes(6).toString("hex")}`);
  try {
    await writeFile(path, text, { mode: 0o600, flag: "wx" });
    // Not a FileHandle, which would close the descriptor when garbage-collected.
    return openSync(path, constants.O_RDONLY);
  } finally {
    await unlink(path).catch(() => undefined); // The file was not created when the disk was full; that failure is already being thrown.
  }
}
