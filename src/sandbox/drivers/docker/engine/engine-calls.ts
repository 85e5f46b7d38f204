// Every call to the engine goes through here: each has a deadline, and its failures become our
// errors.
import type { Socket } from "node:net";
import type Docker from "dockerode";
import { messageOf, WavesmithError } from "../../../../domain/errors.ts";
import { connectEngine, engineProblem, socketPath } from "./engine.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const answerLimitMs = 30_000;
/** The system's codes for an engine that does not answer or may not be asked. */
const silences = new Set(["ENOENT", "ENOTDIR", "ECONNREFUSED", "EACCES", "EPERM", "ECONNRESET", "EPIPE"]);

/** Goes to the library with every call; ends the request at its deadline. */
interface Limited {
  readonly abortSignal: AbortSignal;
}

interface CallOptions<Other> {
  readonly limitMs?: number;
  /** Turns these status codes into results, because the caller does not count them as failures. */
  readonly on?: Readonly<Record<number, (reason: string) => Other>>;
}

export interface DockerEngine {
  readonly docker: Docker;
  readonly socketPath: string;
  /**
   * Makes one request. Fails with `sandbox-unavailable`, retryable, when the engine is away or does
   * not answer in time, and with `environment` when it refuses. `what` names the request in
   * messages.
   */
  call<Result, Other = never>(
    what: string,
    act: (docker: Docker, limited: Limited) => Promise<Result>,
    options?: CallOptions<Other>,
  ): Promise<Result | Other>;
  /** Makes one request that turns its connection into a stream, which has no deadline. */
  hijack(what: string, act: (docker: Docker, limited: Limited) => Promise<NodeJS.ReadWriteStream>): Promise<Socket>;
}

/** Returns the engine of this machine; connects to nothing yet. */
export function openEngine(environment: Environment): DockerEngine {
  const docker = connectEngine(environment);
  const path = socketPath(environment);
  const call: DockerEngine["call"] = async (what, act, { limitMs = answerLimitMs, on = {} } = {}) => {
    try {
      return await within(limitMs, (abortSignal) => act(docker, { abortSignal }));
    } catch (error) {
      const meant = on[statusOf(error) ?? 0];
      if (meant !== undefined) return meant(messageOf(error));
      throw await translated(error, what, { path, environment });
    }
  };
  return {
    docker,
    socketPath: path,
    call,
    // The signal ends the request only until the stream opens, and the deadline covers just that.
    hijack: async (what, act) => (await call(what, act)) as unknown as Socket,
  };
}

const statusOf = (error: unknown): number | undefined => (error as { statusCode?: number }).statusCode;

class TooLate extends Error {}

async function within<Result>(limitMs: number, act: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const over = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new TooLate(`no answer for ${limitMs / 1000} s`));
      over.abort();
    }, limitMs);
  });
  const request = act(over.signal);
  request.catch(() => undefined); // After the deadline nobody waits for it.
  try {
    return await Promise.race([request, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function translated(
  error: unknown,
  what: string,
  { path, environment }: { path: string; environment: Environment },
): Promise<WavesmithError> {
  if (error instanceof WavesmithError) return error;
  const reason = messageOf(error)
    .replace(/^\(HTTP code \d+\) /, "")
    .trim();
  if (statusOf(error) !== undefined) return refused(what, reason);
  const { code } = error as { code?: string };
  const problem = silences.has(code ?? "") ? await engineProblem(environment) : null;
  const why = problem?.what ?? `the Docker engine at ${path} does not answer (${what}): ${reason}`;
  return new WavesmithError("sandbox-unavailable", why, {
    retryable: true,
    remedy: problem?.remedy ?? "check it with docker info, or restart it: systemctl restart docker",
    cause: error,
  });
}

function refused(what: string, reason: string): WavesmithError {
  // A retry may work, because the failure was the engine's.
  const isFull = /no space left on device/i.test(reason);
  return new WavesmithError("environment", `the Docker engine could not ${what}: ${reason}`, {
    retryable: true,
    remedy: isFull
      ? "free space on the disk that holds Docker's data (docker system df)"
      : "see the engine's log: journalctl -u docker",
  });
}
