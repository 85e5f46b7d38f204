import { request } from "node:http";
import { nextMarker } from "./parts.ts";
import type { StageSpec } from "./protocol.ts";
import type { StageSurroundings } from "./stage.ts";

const httpProbeMs = 5_000;
const commandProbeMs = 10_000;

/** Asks once whether a stage is ready; never fails. The signal ends a probe that runs. */
export async function probeReady(around: StageSurroundings, stage: StageSpec, signal: AbortSignal): Promise<boolean> {
  const { ready } = stage;
  if (ready === undefined) return true;
  if ("argv" in ready) return probeCommand(around, stage, ready.argv, signal);
  // A server on "localhost" may listen on one of the two only.
  return (
    (await probeHttp("127.0.0.1", ready.http, signal)) ||
    (!signal.aborted && (await probeHttp("::1", ready.http, signal)))
  );
}

async function probeCommand(
  around: StageSurroundings,
  stage: StageSpec,
  argv: readonly string[],
  signal: AbortSignal,
): Promise<boolean> {
  const { parts } = around;
  const cwd = await parts.volume.locate(stage.cwd).catch(() => null); // Gone meanwhile: not ready.
  if (cwd === null || signal.aborted) return false;
  const launched = parts.isolation.launch({
    argv,
    cwd,
    env: stage.env,
    writable: around.writable,
    hidden: around.hidden,
    scratch: around.scratch.path,
    marker: nextMarker(around.owner),
    stdio: ["ignore", "ignore", "ignore"],
  });
  const stop = (): void => launched.stop(0);
  const timer = setTimeout(stop, commandProbeMs);
  signal.addEventListener("abort", stop);
  try {
    const ending = await launched.ended;
    return ending.ran && ending.exitCode === 0;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

function probeHttp(host: string, http: { port: number; path: string }, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host, port: http.port, path: http.path, agent: false as const, timeout: httpProbeMs, signal };
    const asked = request(options, (reply) => {
      const status = reply.statusCode ?? 0;
      resolve(status >= 200 && status < 400);
      reply.destroy();
    });
    asked.on("timeout", () => asked.destroy());
    asked.on("error", () => resolve(false)); // Nobody listens yet.
    asked.on("close", () => resolve(false));
    asked.end();
  });
}
