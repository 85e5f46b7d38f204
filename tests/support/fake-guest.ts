import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve, sep } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { WavesmithError } from "../../src/domain/errors.ts";
import type { ExecResult, ExecSpec, FileStat, GuestClient } from "../../src/sandbox/port.ts";

export interface FakeGuest extends GuestClient {
  /** The volume: a plain folder on this machine. */
  readonly root: string;
  /** Every command run so far. */
  readonly execs: ExecSpec[];
  /** Removes the volume. */
  dispose(): Promise<void>;
}

/**
 * A guest without a sandbox: files in a temporary folder, commands as plain child processes. It has
 * no jobs, ports or tunnels.
 */
export async function createFakeGuest(options: { root?: string } = {}): Promise<FakeGuest> {
  const root = options.root ?? (await mkdtemp(join(tmpdir(), "wavesmith-volume-")));
  const home = await mkdtemp(join(tmpdir(), "wavesmith-home-"));
  const execs: ExecSpec[] = [];
  const at = (path: string) => confined(root, path);
  const absent = (what: string) => async (): Promise<never> => {
    throw new WavesmithError("unsupported", `the fake guest has no ${what}`);
  };
  return {
    root,
    execs,
    dispose: async () => {
      await run(["chmod", "-R", "u+rwX", root], { cwd: "/" });
      await rm(root, { recursive: true, force: true });
      await rm(home, { recursive: true, force: true });
    },
    health: async () => ({
      protocol: 1,
      pid: process.pid,
      bootId: "fake",
      startedAt: "2026-01-01T00:00:00.000Z",
      isolation: "sweep",
      workspaceRoot: root,
      activeJobs: 0,
      idleMs: 0,
      egress: null,
    }),
    readFile: async (path, limits = {}) => {
      const data = await readFile(at(path)).catch(nullWhenAbsent);
      if (data !== null && data.length > (limits.maxBytes ?? 16 << 20)) {
        throw new WavesmithError("guest-refused", `${path} is larger than it may be`);
      }
      return data;
    },
    writeFile: async (path, data, how = {}) => {
      const found = await readFile(at(path)).catch(nullWhenAbsent);
      const etag = found === null ? null : createHash("sha256").update(found).digest("hex");
      if (how.ifMatch !== undefined && how.ifMatch !== etag)
        throw new WavesmithError("conflict", `${path} has changed`);
      await mkdir(dirname(at(path)), { recursive: true });
      await writeFile(`${at(path)}.new`, data, { mode: how.mode ?? 0o644 });
      await rename(`${at(path)}.new`, at(path));
    },
    remove: (path, how = {}) => rm(at(path), { force: true, recursive: how.recursive ?? false }),
    stat: (path) => statOf(root, path),
    list: async (path) => {
      const names = (await readdir(at(path))).sort();
      const stats = await Promise.all(names.map((name) => statOf(root, join(path, name))));
      return stats.filter((found) => found !== null);
    },
    exec: async (spec) => {
      execs.push(spec);
      for (const path of spec.writable) await mkdir(at(path), { recursive: true });
      return exec(spec, { cwd: at(spec.cwd), home });
    },
    pack: async (path) =>
      spawn("tar", ["-C", at(path), "-cf", "-", "."], { stdio: ["ignore", "pipe", "ignore"] }).stdout,
    unpack: (path, tar) => unpack(at(path), tar),
    startJob: absent("jobs"),
    findJob: absent("jobs"),
    listJobs: async () => [],
    readOutput: absent("jobs"),
    writeStdin: absent("jobs"),
    cancelJob: absent("jobs"),
    forgetJob: absent("jobs"),
    allocatePorts: absent("ports"),
    tunnel: absent("tunnels"),
    shutdown: async () => undefined,
  };
}

function confined(root: string, path: string): string {
  const place = resolve(root, path);
  if (place === root || place.startsWith(root + sep)) return place;
  throw new WavesmithError("sandbox-path", `${path} is not on the volume`);
}

function nullWhenAbsent(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
  throw error;
}

async function statOf(root: string, path: string): Promise<FileStat | null> {
  const found = await lstat(confined(root, path)).catch(nullWhenAbsent);
  if (found === null) return null;
  const kind = found.isFile()
    ? "file"
    : found.isDirectory()
      ? "directory"
      : found.isSymbolicLink()
        ? "symlink"
        : "other";
  return { path, type: kind, sizeBytes: found.size, mode: found.mode & 0o7777, modifiedAt: found.mtime.toISOString() };
}

function exec(spec: ExecSpec, place: { cwd: string; home: string }): Promise<ExecResult> {
  const env = { PATH: process.env.PATH, HOME: place.home, LANG: "C.UTF-8", TMPDIR: tmpdir(), ...spec.env };
  return run(spec.argv, { cwd: place.cwd, env, spec });
}

function run(
  argv: readonly string[],
  how: { cwd: string; env?: NodeJS.ProcessEnv; spec?: ExecSpec },
): Promise<ExecResult> {
  const { spec } = how;
  const startedAt = Date.now();
  const [command = "", ...args] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: how.cwd,
      ...(how.env && { env: how.env }),
      stdio: ["pipe", "pipe", "pipe"],
    });
    const most = spec?.maxBytes ?? 1 << 20;
    const out = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
    let truncated = false;
    let timedOut = false;
    for (const name of ["stdout", "stderr"] as const) {
      child[name].on("data", (chunk: Buffer) => {
        truncated ||= out[name].length + chunk.length > most;
        out[name] = Buffer.concat([out[name], chunk]).subarray(0, most);
      });
    }
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill("SIGKILL");
    }, spec?.timeoutMs ?? 60_000);
    // A command may end before it has read its input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(spec?.stdin ?? "");
    child.on("error", reject);
    child.on("close", (exitCode, signal) => {
      clearTimeout(timer);
      const text = { stdout: out.stdout.toString("utf8"), stderr: out.stderr.toString("utf8") };
      resolve({ exitCode, signal, timedOut, truncated, ...text, durationMs: Date.now() - startedAt });
    });
  });
}

async function unpack(folder: string, tar: Readable): Promise<void> {
  await mkdir(folder, { recursive: true });
  const child = spawn("tar", ["-C", folder, "-xf", "-"], { stdio: ["pipe", "ignore", "inherit"] });
  const ended = new Promise<number | null>((resolve, reject) => child.on("error", reject).on("close", resolve));
  await pipeline(tar, child.stdin);
  if ((await ended) !== 0)
    throw new WavesmithError("guest-protocol", `the archive could not be unpacked into ${folder}`);
}
