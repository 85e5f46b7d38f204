// `node guest.mjs pack --root DIR --format tar.zst|tar.gz [--while-stdin]`: writes a volume to
// stdout as an archive, even while programs change it. With `--while-stdin` it stops when its
// standard input ends.
// PK1. The archive holds files, folders and symlinks, as `unpack` accepts them: no devices, pipes
// or sockets, and no setuid bits.
// PK2. The guest's own folder is left out. Files that cannot be read are left out too and listed on
// stderr. Files that vanish meanwhile are skipped. Any other error fails the whole archive.
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { guestFolder } from "../files/confined-volume.ts";
import type { ArchiveFormat } from "../protocol.ts";
import { readArchiveArguments } from "./archive-arguments.ts";

const maxReportedPaths = 50;
const maxErrorBytes = 4_000;

/**
 * Each zstd thread takes about 10 MB, so one per processor would be too many in a small container.
 */
const compressors: Readonly<Record<ArchiveFormat, readonly string[]>> = {
  "tar.zst": ["zstd", "-3", "-q", "-T2"],
  "tar.gz": ["gzip", "-1"],
};

type Environment = Readonly<Record<string, string | undefined>>;

/** Packs the volume. `env` is the environment of the programs it runs. Fails with the reason. */
export async function packArchive(args: readonly string[], env: Environment): Promise<void> {
  const { root, format, whileStdin } = readArchiveArguments(args);
  // tar cannot exclude by file type, so find lists the entries and tar packs exactly those.
  const kinds = ["(", "-type", "f", "-o", "-type", "d", "-o", "-type", "l", ")"];
  const excluded = ["(", "-path", `./${guestFolder}`, "-o", "-path", "./lost+found", ")", "-prune"];
  const find = startProgram(
    ["find", ".", "-mindepth", "1", ...excluded, "-o", ...kinds, "-print0"],
    { cwd: root, env },
    ["ignore", "pipe"],
  );
  // Not through tar's own option, which would read the compressor's output back and copy it.
  const compressor = startProgram(compressors[format], { cwd: root, env }, ["pipe", "inherit"]);
  const options = ["--null", "--no-recursion", "--files-from=-", "--format=gnu", "--sparse", "--mode=u-s,g-s"];
  const owner = ["--numeric-owner", "--owner=0", "--group=0"];
  // Writes as much at once as a pipe holds.
  const command = ["tar", "-c", "-f", "-", "--blocking-factor=128", ...options, ...owner];
  const tar = startProgram(command, { cwd: root, env }, ["pipe", compressor.child.stdin ?? "ignore"]);
  // Only tar may hold the compressor's input; otherwise the compressor would never see its end.
  compressor.child.stdin?.destroy();
  // tar may exit before it has read all names; its exit code says why.
  tar.child.stdin?.on("error", () => undefined);
  if (tar.child.stdin !== null) find.child.stdout?.pipe(tar.child.stdin);
  // A program that fails also stops those before it in the pipe, so the last one knows the reason.
  const all = [compressor, tar, find];
  if (whileStdin) endWithStdin(all.map(({ child }) => child));
  const ends = await Promise.allSettled(all.map(({ ended }) => ended));
  if (whileStdin) process.stdin.destroy();
  const unread = new Set<string>();
  for (const end of ends) {
    if (end.status === "rejected") throw end.reason;
    for (const line of end.value) unread.add(line);
  }
  reportUnread([...unread]);
}

function reportUnread(unread: readonly string[]): void {
  for (const line of unread.slice(0, maxReportedPaths)) process.stderr.write(`left out: ${line}\n`);
  if (unread.length > maxReportedPaths) process.stderr.write(`left out: ${unread.length - maxReportedPaths} more\n`);
}

/**
 * Kills the programs when stdin ends: in a container, nothing else tells them that the reader left.
 */
function endWithStdin(programs: readonly ChildProcess[]): void {
  process.stdin.on("error", () => undefined); // The "end" event follows.
  process.stdin.on("end", () => {
    for (const program of programs) program.kill("SIGKILL");
  });
  process.stdin.resume();
}

interface Running {
  readonly child: ChildProcess;
  /** Resolves with the paths that could not be read; rejects on any other error. */
  readonly ended: Promise<string[]>;
}

function startProgram(
  command: readonly string[],
  { cwd, env }: { cwd: string; env: Environment },
  stdio: readonly ["ignore" | "pipe", "pipe" | "inherit" | "ignore" | Writable],
): Running {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { cwd, env: { ...env, LC_ALL: "C" }, stdio: [...stdio, "pipe"] });
  const exited = new Promise<Exit>((resolve) => {
    child.on("error", ({ message }) => resolve({ problem: message, isBroken: true }));
    child.on("close", (code, signal) => {
      resolve({ problem: code === 0 ? null : (signal ?? `exit code ${code}`), isBroken: signal !== null });
    });
  });
  return { child, ended: collectUnread(program, exited, child.stderr) };
}

interface Exit {
  readonly problem: string | null;
  /** Whether it was killed or never started, so that its stderr explains nothing. */
  readonly isBroken: boolean;
}

/** Messages about files that changed or vanished while the tree was read. */
const vanished =
  /: (?:No such file or directory|File removed before we read it|file changed as we read it|file shrank by \d+ bytes?; padding with zeros|socket ignored)$/;
const unreadable = /: (?:Cannot (?:open|stat|readlink|opendir|savedir|open directory): )?Permission denied$/;
const summary = /Exiting with failure status due to previous errors$/;

async function collectUnread(program: string, exited: Promise<Exit>, stderr: Readable | null): Promise<string[]> {
  const unread: string[] = [];
  let errors = "";
  let hasOutput = false;
  for await (const line of linesOf(stderr)) {
    hasOutput = true;
    if (unreadable.test(line)) unread.push(line);
    else if (!vanished.test(line) && !summary.test(line) && errors.length < maxErrorBytes) errors += `${line}\n`;
  }
  const { problem, isBroken } = await exited;
  if (errors !== "" || isBroken || (problem !== null && !hasOutput)) {
    throw new Error(`${program} failed (${problem ?? "though its exit code is 0"}): ${errors.trim()}`);
  }
  return unread;
}

async function* linesOf(stream: Readable | null): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of (stream ?? []) as AsyncIterable<Buffer>) {
    const lines = (rest + chunk.toString("latin1")).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}
