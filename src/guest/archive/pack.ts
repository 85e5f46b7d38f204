// `node guest.mjs pack --root DIR --format tar.zst|tar.gz [--while-stdin]`: a volume as an archive
// on stdout, also while programs change it; with `--while-stdin` it ends when its standard input
// does.
// P1. It holds files, folders and symlinks, as `unpack` takes them: no devices, pipes or sockets,
// no setuid.
// P2. The guest's own folder is left out. So is what may not be read, and stderr says what that is;
// what vanishes meanwhile was never there. Anything else that goes wrong fails the whole.
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { guestFolder } from "../files/volume.ts";
import { type ArchiveFormat, readArchiveArguments } from "./archive-arguments.ts";

const mostTold = 50;
const mostSaidBytes = 4_000;

/**
 * Each thread of zstd takes some 10 MB; as many as there are processors would be too many in a
 * container that has few.
 */
const compressors: Readonly<Record<ArchiveFormat, readonly string[]>> = {
  "tar.zst": ["zstd", "-3", "-q", "-T2"],
  "tar.gz": ["gzip", "-1"],
};

type Environment = Readonly<Record<string, string | undefined>>;

/** Packs the volume; `env` is what the programs that do it are found by. Fails with the reason. */
export async function pack(args: readonly string[], env: Environment): Promise<void> {
  const { root, format, whileStdin } = readArchiveArguments(args);
  // tar cannot leave out by kind. What is named is what is packed, without further search.
  const kinds = ["(", "-type", "f", "-o", "-type", "d", "-o", "-type", "l", ")"];
  const left = ["(", "-path", `./${guestFolder}`, "-o", "-path", "./lost+found", ")", "-prune"];
  const find = start(["find", ".", "-mindepth", "1", ...left, "-o", ...kinds, "-print0"], { cwd: root, env }, [
    "ignore",
    "pipe",
  ]);
  // Not by way of tar, which would read all of it again from a compressor of its own.
  const compressor = start(compressors[format], { cwd: root, env }, ["pipe", "inherit"]);
  const options = ["--null", "--no-recursion", "--files-from=-", "--format=gnu", "--sparse", "--mode=u-s,g-s"];
  const owner = ["--numeric-owner", "--owner=0", "--group=0"];
  // As much at once as a pipe holds.
  const command = ["tar", "-c", "-f", "-", "--blocking-factor=128", ...options, ...owner];
  const tar = start(command, { cwd: root, env }, ["pipe", compressor.child.stdin ?? "ignore"]);
  // It is tar's alone now: else the compressor would not see its end.
  compressor.child.stdin?.destroy();
  // tar may end before it has read all names; its own exit says why.
  tar.child.stdin?.on("error", () => undefined);
  if (tar.child.stdin !== null) find.child.stdout?.pipe(tar.child.stdin);
  // Whoever fails takes down those before it, so the last of them knows why.
  const all = [compressor, tar, find];
  if (whileStdin) endWithStdin(all.map(({ child }) => child));
  const ends = await Promise.allSettled(all.map(({ ended }) => ended));
  if (whileStdin) process.stdin.destroy();
  const unread = new Set<string>();
  for (const end of ends) {
    if (end.status === "rejected") throw end.reason;
    for (const line of end.value) unread.add(line);
  }
  tell([...unread]);
}

function tell(unread: readonly string[]): void {
  for (const line of unread.slice(0, mostTold)) process.stderr.write(`left out: ${line}\n`);
  if (unread.length > mostTold) process.stderr.write(`left out: ${unread.length - mostTold} more\n`);
}

/** Nobody reads what a program in a container writes any more, and nothing else would tell it. */
function endWithStdin(programs: readonly ChildProcess[]): void {
  process.stdin.on("error", () => undefined); // Its end follows.
  process.stdin.on("end", () => {
    for (const program of programs) program.kill("SIGKILL");
  });
  process.stdin.resume();
}

interface Running {
  readonly child: ChildProcess;
  /** What could not be read; fails when anything else went wrong. */
  readonly ended: Promise<string[]>;
}

function start(
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
  return { child, ended: judge(program, exited, child.stderr) };
}

interface Exit {
  readonly problem: string | null;
  /** It did not end by itself, or never began: what it has said explains nothing. */
  readonly isBroken: boolean;
}

/** What programs say of a tree that others change, and that some of it may not be read. */
const vanished =
  /: (?:No such file or directory|File removed before we read it|file changed as we read it|file shrank by \d+ bytes?; padding with zeros|socket ignored)$/;
const unreadable = /: (?:Cannot (?:open|stat|readlink|opendir|savedir|open directory): )?Permission denied$/;
const summary = /Exiting with failure status due to previous errors$/;

async function judge(program: string, exited: Promise<Exit>, stderr: Readable | null): Promise<string[]> {
  const unread: string[] = [];
  let grave = "";
  let hasSaid = false;
  for await (const line of linesOf(stderr)) {
    hasSaid = true;
    if (unreadable.test(line)) unread.push(line);
    else if (!vanished.test(line) && !summary.test(line) && grave.length < mostSaidBytes) grave += `${line}\n`;
  }
  const { problem, isBroken } = await exited;
  if (grave !== "" || isBroken || (problem !== null && !hasSaid)) {
    throw new Error(`${program} failed (${problem ?? "though its exit code is 0"}): ${grave.trim()}`);
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
