import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { createConversation, type GitConversation } from "./conversation.ts";

/** The oldest git that has `merge-tree --write-tree` and `cat-file -z`. */
const oldestGit = [2, 38] as const;
const gitRemedy =
  "install git 2.38 or newer and put it on PATH: `apt-get install git` (Debian 12, Ubuntu 24.04 or newer), `dnf install git`, `brew install git`";

// Settings for every git on the host. The configuration of a user, a system or a repository must
// not change what git does here, and git must start nothing by itself (hooks, gc, maintenance).
const settings = [
  "core.hooksPath=/dev/null",
  "core.excludesFile=/dev/null",
  "core.attributesFile=/dev/null",
  "core.fsmonitor=false",
  "core.logAllRefUpdates=false",
  // After a power cut no ref may point to an object that was never written. In batch mode git
  // flushes once, which relies on file names reaching the disk in order, as on ext4 and XFS.
  "core.fsync=committed,reference",
  "core.fsyncMethod=batch",
  "core.filesRefLockTimeout=2000",
  "gc.auto=0",
  "maintenance.auto=false",
  "protocol.ext.allow=never",
  "fetch.recurseSubmodules=false",
  "http.lowSpeedLimit=100",
  "http.lowSpeedTime=60",
].flatMap((setting) => ["-c", setting]);

interface GitOptions {
  readonly gitDir?: string;
  /** Git's working directory. Default: `/`. */
  readonly cwd?: string;
  /** Additional settings, as `name=value`. */
  readonly config?: readonly string[];
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  /** Exit codes that do not count as failures. Default: 0 only. */
  readonly answers?: readonly number[];
  /** Beyond this much standard output git is killed and `cut` is set. Default 1 GiB. */
  readonly maxBytes?: number;
  /** Writes standard output to this open file instead. */
  readonly outputFd?: number;
}

interface GitResult {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly cut: boolean;
}

/** Runs the host's git with our own environment and settings. */
export interface Git {
  /**
   * Runs git. Fails with `git` on an exit code that `answers` does not list, with `environment`
   * when git is missing or too old.
   */
  run(args: readonly string[], options?: GitOptions): Promise<GitResult>;
  /** Runs git and returns its standard output as text, without the final newline. */
  text(args: readonly string[], options?: GitOptions): Promise<string>;
  /** Starts git and returns its process, for output that is not collected in memory. */
  start(gitDir: string, args: readonly string[]): Promise<ChildProcessWithoutNullStreams>;
  /** Returns a git process that reads questions from standard input, shared by equal arguments. */
  converse(gitDir: string, args: readonly string[]): GitConversation;
}

/**
 * Creates the host's git. `home` is a private folder. Of `env`, git gets only the variables for
 * finding programs and reaching the network.
 */
export function createGit(options: { home: string; env: Readonly<Record<string, string | undefined>> }): Git {
  const base = baseEnvironment(options);
  let ready: Promise<void> | null = null;
  const makeReady = async () => {
    await mkdir(options.home, { recursive: true, mode: 0o700 });
    // A source may belong to another user. upload-pack ignores `-c` and reads only this file.
    await writeFile(join(options.home, ".gitconfig"), "[safe]\n\tdirectory = *\n");
    checkVersion(await spawnGit(["--version"], base, {}));
  };
  const whenReady = async () => {
    ready ??= makeReady();
    await ready.catch((error) => {
      ready = null;
      throw error;
    });
  };
  const run = async (args: readonly string[], options: GitOptions = {}): Promise<GitResult> => {
    await whenReady();
    const env = { ...base, ...(options.gitDir === undefined ? {} : { GIT_DIR: options.gitDir }), ...options.env };
    const more = (options.config ?? []).flatMap((setting) => ["-c", setting]);
    const result = await spawnGit([...settings, ...more, ...args], env, options);
    if (!result.cut && !(options.answers ?? [0]).includes(result.exitCode)) throw failure(args, options, result);
    return result;
  };
  const conversations = new Map<string, GitConversation>();
  const start = async (gitDir: string, args: readonly string[]): Promise<ChildProcessWithoutNullStreams> => {
    await whenReady();
    return spawn("git", [...settings, ...args], { env: { ...base, GIT_DIR: gitDir }, stdio: "pipe", cwd: "/" });
  };
  const converse = (gitDir: string, args: readonly string[]): GitConversation => {
    const key = JSON.stringify([gitDir, ...args]);
    const conversation = conversations.get(key) ?? createConversation(() => start(gitDir, args));
    conversations.set(key, conversation);
    return conversation;
  };
  return {
    run,
    start,
    converse,
    text: async (args, options) => (await run(args, options)).stdout.toString("utf8").replace(/\n$/, ""),
  };
}

/** Returns the problems with the git on PATH, each with a remedy; empty when git is usable. */
export async function checkGit(
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ what: string; remedy: string }[]> {
  try {
    checkVersion(await spawnGit(["--version"], baseEnvironment({ home: "/", env }), {}));
    return [];
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    return [{ what: error.message, remedy: error.remedy ?? gitRemedy }];
  }
}

const passedVariables =
  /^(PATH|TMPDIR|SSH_AUTH_SOCK|GIT_SSL_CAINFO|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY)$/;

function baseEnvironment(options: { home: string; env: Readonly<Record<string, string | undefined>> }) {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.env)) {
    if (value !== undefined && passedVariables.test(name)) env[name] = value;
  }
  return {
    ...env,
    HOME: options.home,
    LC_ALL: "C",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: join(options.home, ".gitconfig"),
    GIT_TERMINAL_PROMPT: "0",
    GIT_SSH_COMMAND: "ssh -o BatchMode=yes",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_NO_LAZY_FETCH: "1",
    GIT_LITERAL_PATHSPECS: "1",
  };
}

function spawnGit(args: readonly string[], env: Record<string, string>, options: GitOptions): Promise<GitResult> {
  return new Promise((resolve, reject) => {
    const child = spawn("git", args, {
      env,
      stdio: ["pipe", options.outputFd ?? "pipe", "pipe"],
      cwd: options.cwd ?? "/",
    });
    const chunks: Buffer[] = [];
    let room = options.maxBytes ?? 1 << 30;
    let stderr = "";
    let cut = false;
    child.stdout?.on("data", (chunk: Buffer) => {
      if (chunk.length > room) {
        cut = true;
        child.kill("SIGKILL");
      }
      chunks.push(chunk.subarray(0, Math.max(room, 0)));
      room -= chunk.length;
    });
    child.stderr?.on("data", (chunk: Buffer) => {
      stderr = (stderr + chunk.toString("utf8")).slice(-8192);
    });
    // Git may exit before it has read all of its input; its exit code tells whether that is a
    // failure.
    child.stdin?.on("error", () => undefined);
    child.on("error", (cause) => {
      const isMissing = (cause as NodeJS.ErrnoException).code === "ENOENT";
      const what = isMissing ? "git is not installed, or not on PATH" : `git could not be started: ${cause.message}`;
      reject(new WavesmithError("environment", what, { remedy: gitRemedy, cause }));
    });
    child.on("close", (code) => resolve({ exitCode: code ?? -1, stdout: Buffer.concat(chunks), stderr, cut }));
    child.stdin?.end(options.input ?? "");
  });
}

function checkVersion(result: GitResult): void {
  const output = result.stdout.toString("utf8").trim();
  const [, version, major, minor] = /git version ((\d+)\.(\d+)\S*)/.exec(output) ?? [];
  const isNewEnough = Number(major) > oldestGit[0] || (Number(major) === oldestGit[0] && Number(minor) >= oldestGit[1]);
  if (isNewEnough) return;
  const problem =
    version === undefined
      ? `git --version printed no version: ${result.stderr.trim() || output || `exit code ${result.exitCode}`}`
      : `git ${version} is too old, ${oldestGit.join(".")} or newer is needed`;
  throw new WavesmithError("environment", problem, { remedy: gitRemedy });
}

function failure(args: readonly string[], options: GitOptions, result: GitResult): WavesmithError {
  const where = options.gitDir === undefined ? "" : ` in ${options.gitDir}`;
  const reason = result.stderr.trim() || `exit code ${result.exitCode}`;
  return new WavesmithError("git", `git ${args[0]}${where} failed: ${reason}`);
}

export interface Identity {
  readonly name: string;
  readonly email: string;
}

/** The author of commits that no agent made. */
export const wavesmithIdentity: Identity = { name: "Wavesmith", email: "wavesmith@localhost" };

/** Returns the environment in which a commit's SHA depends on its content alone. */
export function identityEnvironment(author: Identity, date: Date): Record<string, string> {
  const stamp = `@${Math.floor(date.getTime() / 1000)} +0000`;
  return {
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
    GIT_AUTHOR_DATE: stamp,
    GIT_COMMITTER_NAME: author.name,
    GIT_COMMITTER_EMAIL: author.email,
    GIT_COMMITTER_DATE: stamp,
  };
}

/**
 * Returns the SHA that `git commit-tree` gives a commit with one parent. It differs when git would
 * clean up the author's name.
 */
export function commitSha(of: { tree: string; parent: string; author: Identity; date: Date; message: string }): string {
  const signature = `${of.author.name} <${of.author.email}> ${Math.floor(of.date.getTime() / 1000)} +0000`;
  const text = `tree ${of.tree}\nparent ${of.parent}\nauthor ${signature}\ncommitter ${signature}\n\n${of.message}`;
  const body = Buffer.from(text, "utf8");
  return createHash("sha1").update(`commit ${body.length}\0`).update(body).digest("hex");
}

/** Splits git's output of `-z`. */
export function splitZ(output: Buffer | string): string[] {
  const parts = output.toString("utf8").split("\0");
  if (parts.at(-1) === "") parts.pop();
  return parts;
}

export const shaPattern = /^[0-9a-f]{40}$/;

/** Returns the value if it is a SHA; throws for anything else, such as a ref name or an option. */
export function assertSha(value: string): string {
  if (!shaPattern.test(value)) throw new WavesmithError("usage", `not a commit's SHA: ${JSON.stringify(value)}`);
  return value;
}
