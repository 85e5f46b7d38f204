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

/** Runs npm to its end. Fails with `environment` and npm's reason, or with the signal's reason. */
export async function runNpm({ args, cwd, environment, signal, onLine }: NpmRun): Promise<void> {
  const child = spawn("npm", args, { cwd, env: npmEnvironment(environment), stdio: ["ignore", "pipe", "pipe"] });
  const stop = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  let output = "";
  let rest = "";
  const hear = (chunk: string): void => {
    output = (output + chunk).slice(-keptChars);
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
  if (code !== 0) throw code === "absent" ? absent() : failed(output);
}

/**
 * Returns what npm needs to reach its registry, without the variables of an npm that started us.
 */
function npmEnvironment(environment: NpmRun["environment"]): NodeJS.ProcessEnv {
  const isOfParent = (name: string): boolean =>
    /^(npm_(package|lifecycle|command|execpath|node_execpath|config_local_prefix)|INIT_CWD$)/i.test(name);
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !isOfParent(name)));
}

const absent = (): WavesmithError =>
  new WavesmithError("environment", "npm is not on PATH, and agents are installed with npm", {
    remedy: "install npm (it comes with Node.js; on Debian: apt-get install npm), then try again",
  });

const unreachable =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET\w*)\b/;

/** Translates npm's errors. */
function failed(output: string): WavesmithError {
  const errors = output.split("\n").filter((line) => /^npm (error|ERR!)/.test(line));
  const words = errors
    .map((line) => line.replace(/^npm (error|ERR!) ?/, ""))
    .filter((line) => !/A complete log/.test(line));
  const text = words.join(" ").trim().slice(0, 600) || output.trim().slice(-600);
  if (/\bEINTEGRITY\b/.test(output)) {
    return new WavesmithError("environment", `the registry sent something other than the pinned package: ${text}`, {
      remedy: "clear npm's cache (npm cache clean --force); if that does not help, do not trust this registry",
    });
  }
  if (unreachable.test(output)) {
    return new WavesmithError("environment", `npm cannot reach its registry: ${text}`, {
      retryable: true,
      remedy:
        "connect this machine to the network, or set a registry that it can reach: npm config set registry URL; then try again",
    });
  }
  if (/\b(E404|ETARGET)\b/.test(output)) {
    return new WavesmithError("environment", `npm's registry lacks the pinned package: ${text}`, {
      remedy: "use another registry; npm config get registry shows the current one",
    });
  }
  return new WavesmithError("environment", `npm failed: ${text}`, { remedy: "fix what npm reports, then try again" });
}
