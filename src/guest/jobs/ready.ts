import { request } from "node:http";
import type { Loopback } from "../isolation/loopback.ts";
import { workingFolder } from "../parts.ts";
import type { StageSpec } from "../protocol.ts";
import { launchIn, type StageSurroundings } from "./stage.ts";

const httpProbeTimeoutMs = 5_000;
const commandProbeTimeoutMs = 10_000;
/** Nothing listens, or it closes connections without an answer. */
const silent = "nothing answers on its port";

/**
 * Probes once whether a stage is ready: null if it is, otherwise why not. Never fails. The signal
 * ends a running probe.
 */
export async function probeReady(
  around: StageSurroundings,
  stage: StageSpec,
  signal: AbortSignal,
): Promise<string | null> {
  const { ready } = stage;
  if (ready === undefined) return null;
  if ("argv" in ready) return probeCommand(around, stage, ready.argv, signal);
  // A server on "localhost" may listen on only one of the two.
  const { loopback } = around;
  const first = await probeHttp({ host: "127.0.0.1", loopback }, ready.http, signal);
  if (first === null || signal.aborted) return first;
  const second = await probeHttp({ host: "::1", loopback }, ready.http, signal);
  return second === null || first === silent ? second : first;
}

async function probeCommand(
  around: StageSurroundings,
  stage: StageSpec,
  argv: readonly string[],
  signal: AbortSignal,
): Promise<string | null> {
  const { parts } = around;
  const cwd = await workingFolder(parts, stage.cwd).catch(() => null);
  if (cwd === null) return "its folder is gone";
  if (signal.aborted) return "its check was ended";
  const launched = parts.isolation.launch({
    ...launchIn(around, stage),
    argv,
    cwd,
    stdio: ["ignore", "ignore", "ignore"],
  });
  const stop = (): void => launched.stop(0);
  const timer = setTimeout(stop, commandProbeTimeoutMs);
  signal.addEventListener("abort", stop);
  try {
    const ending = await launched.ended;
    if (!ending.ran) return "its check could not be started";
    return ending.exitCode === 0 ? null : `its check exited with ${ending.exitCode ?? ending.signal}`;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

async function probeHttp(
  { host, loopback }: { host: string; loopback: Loopback | null },
  http: { port: number; path: string },
  signal: AbortSignal,
): Promise<string | null> {
  const socket = loopback === null ? null : await loopback.connect(http.port, host).catch(() => "refused" as const);
  if (socket === "refused") return silent;
  const transport = socket === null ? { agent: false as const } : { createConnection: () => socket };
  return new Promise((resolve) => {
    const { port, path } = http;
    const options = { host, port, path, timeout: httpProbeTimeoutMs, signal, ...transport };
    const probe = request(options, (reply) => {
      const status = reply.statusCode ?? 0;
      resolve(status >= 200 && status < 400 ? null : `GET ${path} answered ${status}`);
      reply.destroy();
    });
    probe.on("timeout", () => {
      resolve(`GET ${path} had no answer within ${httpProbeTimeoutMs / 1000} s`);
      probe.destroy();
    });
    probe.on("error", () => resolve(silent));
    probe.on("close", () => resolve(silent));
    probe.end();
  });
}
