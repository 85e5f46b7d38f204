import { execFile } from "node:child_process";
import { WavesmithError } from "../domain/errors.ts";

// The git of the person, in the person's repository, with the person's settings: what counts as
// ignored, who commits and whom the repository belongs to is answered as in their shell. It never
// changes their working tree, their index or what they have checked out.

export interface OwnGitOptions {
  /** Exit codes that are answers rather than failures. Default: 0 only. */
  readonly answers?: readonly number[];
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string | Buffer;
}

export interface OwnGitResult {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface OwnGit {
  run(args: readonly string[], options?: OwnGitOptions): Promise<OwnGitResult>;
  /** Standard output as text, without the newline at its end. */
  text(args: readonly string[], options?: OwnGitOptions): Promise<string>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Runs none of the person's hooks or monitors, and refreshes nothing as a side effect. */
const settings = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "push.followTags=false",
  "push.gpgSign=false",
  "push.recurseSubmodules=no",
  "protocol.version=2",
].flatMap((setting) => ["-c", setting]);

/** A git hook or an alias sets these, and git would then use them instead of the folder we name. */
const elsewhere =
  /^GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|PREFIX|NAMESPACE|QUARANTINE_PATH)$/;

/** Runs git in this folder. Fails with `git`, in git's words. */
export function createOwnGit(folder: string, environment: Environment): OwnGit {
  const base = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => value !== undefined && !elsewhere.test(name)),
  );
  const env = { ...base, LC_ALL: "C", GIT_OPTIONAL_LOCKS: "0", GIT_TERMINAL_PROMPT: "0", GIT_PAGER: "cat" };
  const run = (args: readonly string[], options: OwnGitOptions = {}): Promise<OwnGitResult> =>
    new Promise((resolve, reject) => {
      const child = execFile(
        "git",
        [...settings, ...args],
        { cwd: folder, env: { ...env, ...options.env }, encoding: "buffer", maxBuffer: 1 << 28 },
        (error, stdout, stderr) => {
          const exitCode = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
          const said = stderr.toString("utf8").trim();
          if ((options.answers ?? [0]).includes(exitCode)) return resolve({ exitCode, stdout, stderr: said });
          const why = said === "" ? (error?.message ?? `exit code ${exitCode}`) : said;
          reject(new WavesmithError("git", `git ${args[0]} in ${folder} failed: ${why}`, { cause: error }));
        },
      );
      // git may end before it has read its input; its exit code says what that means.
      child.stdin?.on("error", () => undefined);
      child.stdin?.end(options.input ?? "");
    });
  return { run, text: async (args, options) => (await run(args, options)).stdout.toString("utf8").replace(/\n$/, "") };
}
