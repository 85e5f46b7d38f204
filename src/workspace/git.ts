import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { type Conversation, createConversation } from "./conversation.ts";

/** The oldest git whose `merge-tree --write-tree` and `cat-file -z` are there. */
const oldestGit = [2, 38] as const;
const gitRemedy =
  "install git 2.38 or newer and put it on PATH: `apt-get install git` (Debian 12, Ubuntu 24.04 or newer), `dnf install git`, `brew install git`";

// Settings of every host git. What a user, a system or a repository configured must not change what
// git does here, and nothing git starts by itself (hooks, gc, maintenance) may run.
const settings = [
  "core.hooksPath=/dev/null",
  "core.excludesFile=/dev/null",
  "core.attributesFile=/dev/null",
  "core.fsmonitor=false",
  "core.logAllRefUpdates=false",
  // A power cut must not leave a ref on an object that was never written. In a batch git waits for
  // the disk once, which relies on the names of files reaching it in the order they were made, as
  // on ext4 and XFS.
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
  /** Where git runs. Default: `/`. */
  readonly cwd?: string;
  /** More settings, as `name=value`. */
  readonly config?: readonly string[];
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  /** Exit codes that are answers rather than failures. Default: 0 only. */
  readonly answers?: readonly number[];
  /** Standard output beyond this is dropped, git is ended and `cut` is set. Default 1 GiB. */
  readonly maxBytes?: number;
  /** Standard output goes into this open file instead. */
  readonly outputFd?: number;
}

interface GitResult {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly cut: boolean;
}

/** Runs the host's git with an environment and settings of our own. */
export interface Git {
  /**
   * Fails with `git` when the exit code is no answer, with `environment` when git is missing or too
   * old.
   */
  run(args: readonly string[], options?: GitOptions): Promise<GitResult>;
  /** Standard output as text, without the newline at its end. */
  text(args: readonly string[], options?: GitOptions): Promise<string>;
  /**
   * A git of these arguments that reads questions from its standard input; the same one for the
   * same arguments.
   */
  converse(gitDir: string, args: readonly string[]): Conversation;
}

/**
 * `home` is a private folder; of `env` only what finding programs and reaching a network takes is
 * passed on.
 */
export function createGit(options: { home: string; env: Readonly<Record<string, string | undefined>> }): Git {
  const base = baseEnvironment(options);
  let ready: Promise<void> | null = null;
  const makeReady = async () => {
    await mkdir(options.home, { recursive: true, mode: 0o700 });
    // Sources may belong to someone else; upload-pack sees no `-c`, only this file.
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
  const run = async (args: readonly string[], given: GitOptions = {}): Promise<GitResult> => {
    await whenReady();
    const env = { ...base, ...(given.gitDir === undefined ? {} : { GIT_DIR: given.gitDir }), ...given.env };
    const more = (given.config ?? []).flatMap((setting) => ["-c", setting]);
    const result = await spawnGit([...settings, ...more, ...args], env, given);
    if (!result.cut && !(given.answers ?? [0]).includes(result.exitCode)) throw failure(args, given, result);
    return result;
  };
  const conversations = new Map<string, Conversation>();
  const converse = (gitDir: string, args: readonly string[]): Conversation => {
    const key = JSON.stringify([gitDir, ...args]);
    const begin = async (): Promise<ChildProcessWithoutNullStreams> => {
      await whenReady();
      return spawn("git", [...settings, ...args], { env: { ...base, GIT_DIR: gitDir }, stdio: "pipe", cwd: "/" });
    };
    const made = conversations.get(key) ?? createConversation(begin);
    conversations.set(key, made);
    return made;
  };
  return {
    run,
    converse,
    text: async (args, given) => (await run(args, given)).stdout.toString("utf8").replace(/\n$/, ""),
  };
}

/**
 * What the git on PATH lacks, and what to do about it; empty when it is one that builds can work
 * with.
 */
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

const passedOn =
  /^(PATH|TMPDIR|SSH_AUTH_SOCK|GIT_SSL_CAINFO|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY)$/;

function baseEnvironment(options: { home: string; env: Readonly<Record<string, string | undefined>> }) {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.env)) {
    if (value !== undefined && passedOn.test(name)) env[name] = value;
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
    // git may end before it has read all of its input; its exit code says what that means.
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
  const said = result.stdout.toString("utf8").trim();
  const [, version, major, minor] = /git version ((\d+)\.(\d+)\S*)/.exec(said) ?? [];
  const enough = Number(major) > oldestGit[0] || (Number(major) === oldestGit[0] && Number(minor) >= oldestGit[1]);
  if (enough) return;
  const what =
    version === undefined
      ? `git --version does not say its version: ${result.stderr.trim() || said || `exit code ${result.exitCode}`}`
      : `git ${version} is too old, ${oldestGit.join(".")} or newer is needed`;
  throw new WavesmithError("environment", what, { remedy: gitRemedy });
}

function failure(args: readonly string[], options: GitOptions, result: GitResult): WavesmithError {
  const where = options.gitDir === undefined ? "" : ` in ${options.gitDir}`;
  const said = result.stderr.trim() || `exit code ${result.exitCode}`;
  return new WavesmithError("git", `git ${args[0]}${where} failed: ${said}`);
}

export interface Identity {
  readonly name: string;
  readonly email: string;
}

/** Wavesmith's own, for commits no agent made. */
export const wavesmithIdentity: Identity = { name: "Wavesmith", email: "wavesmith@localhost" };

/** The environment that makes a commit's SHA follow from its content alone. */
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
 * The SHA `git commit-tree` gives a commit with one parent; another one when git would tidy the
 * author's name.
 */
export function commitSha(of: { tree: string; parent: string; author: Identity; date: Date; message: string }): string {
  const who = `${of.author.name} <${of.author.email}> ${Math.floor(of.date.getTime() / 1000)} +0000`;
  const text = `tree ${of.tree}\nparent ${of.parent}\nauthor ${who}\ncommitter ${who}\n\n${of.message}`;
  const body = Buffer.from(text, "utf8");
  return createHash("sha1").update(`commit ${body.length}\0`).update(body).digest("hex");
}

/** Splits what git wrote with `-z`. */
export function splitZ(output: Buffer | string): string[] {
  const parts = output.toString("utf8").split("\0");
  if (parts.at(-1) === "") parts.pop();
  return parts;
}

export const shaPattern = /^[0-9a-f]{40}$/;

/** A SHA an argument may be; anything else (a ref name, an option) is refused. */
export function assertSha(value: string): string {
  if (!shaPattern.test(value)) throw new WavesmithError("usage", `not a commit's SHA: ${JSON.stringify(value)}`);
  return value;
}
