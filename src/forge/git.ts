import { execFile } from "node:child_process";
import { ForgeError, type ForgeFault, foreignCommits, type PushRequest } from "./port.ts";

// Pushes from the authority to a forge with the host's git. The credential is only in the
// environment of that process (FP2), and no user, system or repository setting changes what git
// does here.

const settings = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "credential.helper=",
  "gc.auto=0",
  "http.followRedirects=false",
  "http.lowSpeedLimit=100",
  "http.lowSpeedTime=60",
  "protocol.ext.allow=never",
  "push.followTags=false",
  "push.gpgSign=false",
].flatMap((setting) => ["-c", setting]);

const passedVariables =
  /^(PATH|TMPDIR|SSH_AUTH_SOCK|GIT_SSL_CAINFO|SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY)$/;

const timeoutMs = 10 * 60_000;
const mostOutputBytes = 16 << 20;

type Environment = Readonly<Record<string, string | undefined>>;

/** The environment in which git sends a credential to URLs below this one, and to no others. */
export function credentialEnvironment(baseUrl: string, user: string, secret: string): Record<string, string> {
  const basic = Buffer.from(`${user}:${secret}`, "utf8").toString("base64");
  return {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: `http.${baseUrl}/.extraHeader`,
    GIT_CONFIG_VALUE_0: `Authorization: Basic ${basic}`,
  };
}

/** Pushes to the repository at `url`. See `Forge.pushBranch`. */
export async function pushWithLease(
  { gitDir, sha, branch, expected, repository }: PushRequest,
  remote: { readonly url: string; readonly env: Readonly<Record<string, string>>; readonly environment: Environment },
): Promise<void> {
  const git = (args: readonly string[]) => runGit(gitDir, args, remote);
  const ref = `refs/heads/${branch}`;
  const listed = await git(["ls-remote", "--end-of-options", remote.url, ref]);
  if (listed.exitCode !== 0) throw gitFailure(listed.stderr, repository.name);
  const present = listed.stdout === "" ? null : listed.stdout.slice(0, 40);
  if (present === sha) return;
  const isOurs = async (found: string): Promise<boolean> =>
    // A process may have died after its push, before it noted it.
    found === expected || (await git(["merge-base", "--is-ancestor", found, sha])).exitCode === 0;
  if (present !== null && !(await isOurs(present))) throw foreignCommits({ repository, branch, present, expected });
  const lease = `--force-with-lease=${ref}:${present ?? ""}`;
  const pushed = await git(["push", "-q", "--no-verify", lease, "--end-of-options", remote.url, `${sha}:${ref}`]);
  if (pushed.exitCode !== 0) throw gitFailure(pushed.stderr, repository.name);
}

interface Ran {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs git on a bare repository; never fails. */
export function runGit(
  gitDir: string,
  args: readonly string[],
  { env, environment }: { env: Readonly<Record<string, string>>; environment: Environment },
): Promise<Ran> {
  const passed = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => value !== undefined && passedVariables.test(name)),
  );
  const own = {
    GIT_DIR: gitDir,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    LC_ALL: "C",
  };
  const options = { cwd: "/", env: { ...passed, ...own, ...env }, timeout: timeoutMs, maxBuffer: mostOutputBytes };
  return new Promise((resolve) => {
    const child = execFile("git", [...settings, ...args], options, (error, stdout, stderr) => {
      const exitCode = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ exitCode, stdout, stderr: stderr.trim() === "" && error !== null ? error.message : stderr.trim() });
    });
    child.stdin?.end();
  });
}

const faults: readonly (readonly [RegExp, ForgeFault])[] = [
  [/authentication failed|could not read (username|password)|returned error: 401/i, "unauthorized"],
  [/protected branch|GH006|GH013|repository rule violations/i, "protected"],
  [/returned error: 403|permission to .* denied|write access/i, "forbidden"],
  [/repository .*not found|returned error: 404|does not appear to be a git repository/i, "not-found"],
  [/returned error: 429/i, "rate-limited"],
  [/stale info|non-fast-forward|fetch first|remote rejected|cannot lock ref|failed to update ref/i, "rejected"],
];

const remedies: Readonly<Partial<Record<ForgeFault, string>>> = {
  unauthorized: "sign in again: wavesmith github setup",
  forbidden: "give our credential write access",
  protected: "exempt the branches wavesmith/* from the rule that protects them",
};

/** Turns git's error output into our failure. */
function gitFailure(said: string, name: string): ForgeError {
  const fault = faults.find(([pattern]) => pattern.test(said))?.[1] ?? "network";
  const line = said.replace(/\s+/g, " ").slice(0, 400);
  const remedy = remedies[fault];
  return new ForgeError(fault, `git could not push to ${name}: ${line}`, remedy === undefined ? {} : { remedy });
}
