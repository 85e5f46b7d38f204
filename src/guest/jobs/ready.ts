import { request } from "node:http";
import type { Loopback } from "../isolation/loopback.ts";
import { workingFolder } from "../parts.ts";
import type { StageSpec } from "../protocol.ts";
import { launchIn, type StageSurroundings } from "./stage.ts";

const httpProbeTimeoutMs = 5_000;
const commandProbeTimeoutMs = 10_000;

/** Probes once whether a stage is ready; never fails. The signal ends a running probe. */
export async function probeReady(around: StageSurroundings, stage: StageSpec, signal: AbortSignal): Promise<boolean> {
  const { ready } = stage;
  if (ready === undefined) return true;
  if ("argv" in ready) return probeCommand(around, stage, ready.argv, signal);
  // A server on "localhost" may listen on only one of the two.
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
  const cwd = await workingFolder(parts, stage.cwd).catch(() => null); // The folder is gone: not ready.
  if (cwd === null || signal.aborted) return false;
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
  const transport = socket === null ? { agent: false as const } : { createConnection: () => socket };
  return new Promise((resolve) => {
    const { port, path } = http;
    const options = { host, port, path, timeout: httpProbeTimeoutMs, signal, ...transport };
    const probe = request(options, (reply) => {
      const status = reply.statusCode ?? 0;
      resolve(status >= 200 && status < 400);
      reply.destroy();
    });
    probe.on("timeout", () => probe.destroy());
    probe.on("error", () => resolve(false)); // Nothing listens yet.
    probe.on("close", () => resolve(false));
    probe.end();
  });
}
