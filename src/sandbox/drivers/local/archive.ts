// Packs and unpacks volumes with the guest's program, in a sandbox that reaches nothing but the
// volume. The program ends with its standard input, even if we are killed. We never kill it,
// because a bwrap killed while it creates namespaces leaves a process that waits forever and holds
// the pipes open.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { join } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { messageOf, WavesmithError } from "../../../domain/errors.ts";
import { findProgram } from "../../host/programs.ts";
import type { ArchiveFormat } from "../../port.ts";
import { type OuterCommand, showEtc } from "./bubblewrap.ts";
import {
  commandFor,
  guestInside,
  type LocalDriverOptions,
  type Places,
  requireProgram,
  shownPrograms,
  toolsFor,
} from "./launch.ts";
import { prepareFolder } from "./volume.ts";

export interface ArchiveWork {
  readonly options: LocalDriverOptions;
  readonly places: Places;
  /** The guest's program on the host. */
  readonly program: string;
  readonly format: ArchiveFormat;
  /** The folder to pack, or to unpack into. */
  readonly folder: string;
}

const complaintBytes = 4_000;

/** Returns the formats for packing volumes with the programs of this PATH, best first. */
export const archiveFormats = ({ env }: LocalDriverOptions): ArchiveFormat[] =>
  findProgram("zstd", env.PATH) === null ? ["tar.gz"] : ["tar.zst", "tar.gz"];

/**
 * Returns the folder as an archive. An error of the stream means that it is incomplete; destroying
 * the stream ends the work.
 */
export async function packLocalFolder(work: ArchiveWork): Promise<Readable> {
  const child = await begin(work, ["pack", "--while-stdin"]);
  const archive = new PassThrough();
  const complaint = complaintOf(child);
  archive.on("close", () => {
    child.stdin.destroy();
    child.stdout.destroy();
  });
  child.on("close", (code, signal) => {
    if (code === 0) {
      if (complaint() !== "") work.options.logger?.warn(`packing ${work.folder}: ${complaint().trim()}`);
      archive.end();
      return;
    }
    archive.destroy(failure(`the volume ${work.folder} could not be packed`, complaint() || `${code ?? signal}`));
  });
  child.stdout.on("error", (error) => archive.destroy(error));
  child.stdout.pipe(archive, { end: false });
  return archive;
}

/**
 * Unpacks the archive into the folder. Fails with `archive`; the caller removes what was unpacked
 * so far.
 */
export async function unpackLocalFolder(work: ArchiveWork & { maxBytes: number }, archive: Readable): Promise<void> {
  const child = await begin(work, ["unpack", "--max-bytes", String(work.maxBytes)]);
  const complaint = complaintOf(child);
  child.stdout.resume();
  const ended = new Promise<number | string>((resolve) =>
    child.on("close", (code, signal) => resolve(code ?? signal ?? "")),
  );
  const fed = await pipeline(archive, child.stdin).then(
    () => null,
    (error: NodeJS.ErrnoException) => error,
  );
  const code = await ended;
  // A truncated archive must not be taken for a complete one.
  const broken = fed?.code === "EPIPE" ? null : fed;
  if (broken instanceof WavesmithError) throw broken;
  const why = broken === null ? complaint() || `exit code ${code}` : messageOf(broken);
  if (code !== 0 || fed !== null) throw failure("the archive could not be unpacked", why);
}

const failure = (what: string, why: string): WavesmithError =>
  new WavesmithError("archive", `${what}: ${why.trim()}`, { remedy: "take another snapshot" });

type Verb = readonly ["pack", "--while-stdin"] | readonly ["unpack", "--max-bytes", string];

async function begin(work: ArchiveWork, verb: Verb): Promise<ChildProcessWithoutNullStreams> {
  await prepareFolder(work.places.run, null);
  const { program, args } = work.options.unsafe ? plainCommand(work, verb) : sandboxedCommand(work, verb);
  const child = spawn(program, args, {
    cwd: "/",
    env: work.options.unsafe ? { PATH: work.options.env.PATH, LANG: "C.UTF-8" } : {},
    stdio: "pipe",
  });
  await new Promise<void>((resolve, reject) => child.once("spawn", resolve).once("error", reject));
  return child;
}

const verbArguments = ([verb, ...more]: Verb, root: string, format: string): string[] => {
  return [verb, "--root", root, "--format", format, ...more];
};

function plainCommand({ program, folder, format }: ArchiveWork, verb: Verb): OuterCommand {
  return { program: process.execPath, args: [program, ...verbArguments(verb, folder, format)] };
}

function sandboxedCommand(work: ArchiveWork, verb: Verb): OuterCommand {
  const { options, places, program, folder, format } = work;
  const tools = toolsFor(options);
  const volume = { source: folder, target: "/workspace" };
  return commandFor(options, {
    bwrap: requireProgram("bwrap", options),
    shown: [
      ...showEtc(join(places.run, "etc-archive")),
      ...tools.shown,
      shownPrograms(program),
      ...(verb[0] === "pack" ? [volume] : []),
    ],
    writable: verb[0] === "unpack" ? [volume] : [],
    network: "none",
    env: { PATH: tools.path },
    cwd: "/",
    command: [...guestInside(), ...verbArguments(verb, "/workspace", format)],
  });
}

/** Returns the last output on standard error. */
function complaintOf(child: ChildProcessWithoutNullStreams): () => string {
  let text = "";
  child.stderr.on("data", (chunk: Buffer) => {
    text = (text + chunk.toString("utf8")).slice(-complaintBytes);
  });
  return () => text;
}
