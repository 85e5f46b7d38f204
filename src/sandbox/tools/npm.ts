import { spawn } from "node:child_process";
import { WavesmithError } from "../../domain/errors.ts";

export interface NpmRun {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onLine: (line: string) => void;
}

const keptChars = 20_000;

/**
 * Runs npm to its end. Fails with `environment`, saying what npm lacks, and with the signal's
 * reason.
 */
export async function runNpm({ args, cwd, environment, signal, onLine }: NpmRun): Promise<void> {
  const child = spawn("npm", args, { cwd, env: npmEnvironment(environment), stdio: ["ignore", "pipe", "pipe"] });
  const stop = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  let said = "";
  let rest = "";
  const hear = (chunk: string): void => {
    said = (said + chunk).slice(-keptChars);
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  };
  child.stdout.setEncoding("utf8").on("data", hear);
  child.stderr.setEncoding("utf8").on("data", hear);
  const code = await new Promise<number | "absent">((resolve) => {
    child.once("error", () => resolve("absent"));
    child.once("close", (exit) => resolve(exit ?? 1));
  });
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  if (code !== 0) throw code === "absent" ? absent() : failed(said);
}

/**
 * Everything it may need to reach its registry, and nothing of the npm that may have started us.
 */
function npmEnvironment(environment: NpmRun["environment"]): NodeJS.ProcessEnv {
  const isOfParent = (name: string): boolean =>
    /^(npm_(package|lifecycle|command|execpath|node_execpath|config_local_prefix)|INIT_CWD$)/i.test(name);
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !isOfParent(name)));
}

const absent = (): WavesmithError =>
  new WavesmithError("environment", "npm is not on PATH, and it is what installs agents", {
    remedy: "install npm (it comes with Node.js; on Debian: apt-get install npm), then try again",
  });

const unreachable =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET\w*)\b/;

/** What npm's words mean. */
function failed(said: string): WavesmithError {
  const errors = said.split("\n").filter((line) => /^npm (error|ERR!)/.test(line));
  const words = errors
    .map((line) => line.replace(/^npm (error|ERR!) ?/, ""))
    .filter((line) => !/A complete log/.test(line));
  const text = words.join(" ").trim().slice(0, 600) || said.trim().slice(-600);
  if (/\bEINTEGRITY\b/.test(said)) {
    return new WavesmithError("environment", `what the registry sent is not what is pinned: ${text}`, {
      remedy: "clear npm's cache (npm cache clean --force); if it stays so, do not trust this registry",
    });
  }
  if (unreachable.test(said)) {
    return new WavesmithError("environment", `npm cannot reach its registry: ${text}`, {
      retryable: true,
      remedy: "connect this machine, or name a registry it reaches: npm config set registry URL; then try again",
    });
  }
  if (/\b(E404|ETARGET)\b/.test(said)) {
    return new WavesmithError("environment", `npm's registry does not have what is pinned: ${text}`, {
      remedy: "take another registry: npm config get registry says which one is asked",
    });
  }
  return new WavesmithError("environment", `npm failed: ${text}`, { remedy: "mend what npm says, then try again" });
}
