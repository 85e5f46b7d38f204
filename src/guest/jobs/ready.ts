import { request } from "node:http";
import type { Loopback } from "../isolation/loopback.ts";
import { nextMarker, workingFolder } from "../parts.ts";
import type { StageSpec } from "../protocol.ts";
import type { StageSurroundings } from "./stage.ts";

const httpProbeMs = 5_000;
const commandProbeMs = 10_000;

/** Asks once whether a stage is ready; never fails. The signal ends a probe that runs. */
export async function probeReady(around: StageSurroundings, stage: StageSpec, signal: AbortSignal): Promise<boolean> {
  const { ready } = stage;
  if (ready === undefined) return true;
  if ("argv" in ready) return probeCommand(around, stage, ready.argv, signal);
  // A server on "localhost" may listen on one of the two only.
  const { loopback } = around;
  return (
    (await probeHttp({ host: "127.0.0.1", loopback }, ready.http, signal)) ||
    (!signal.aborted && (await probeHttp({ host: "::1", loopback }, ready.http, signal)))
  );
}

async function probeCommand(
  around: StageSurroundings,
  stage: StageSpec,
  argv: readonly string[],
  signal: AbortSignal,
): Promise<boolean> {
  const { parts } = around;
  const cwd = await workingFolder(parts, stage.cwd).catch(() => null); // Gone meanwhile: not ready.
  if (cwd === null || signal.aborted) return false;
  const launched = parts.isolation.launch({
    argv,
    cwd,
    env: stage.env,
    writable: around.writable,
    hidden: around.hidden,
    ...(around.loopback === null ? {} : { enter: around.loopback.enter }),
    scratch: around.scratch.path,
    marker: nextMarker(around.owner),
    stdio: ["ignore", "ignore", "ignore"],
    user: around.user,
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

async function probeHttp(
  { host, loopback }: { host: string; loopback: Loopback | null },
  http: { port: number; path: string },
  signal: AbortSignal,
): Promise<boolean> {
  const socket = loopback === null ? null : await loopback.connect(http.port, host).catch(() => "refused" as const);
  if (socket === "refused") return false;
  const way = socket === null ? { agent: false as const } : { createConnection: () => socket };
  return new Promise((resolve) => {
    const { port, path } = http;
    const options = { host, port, path, timeout: httpProbeMs, signal, ...way };
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
