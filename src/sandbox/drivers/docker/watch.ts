import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { ProjectId, SandboxId } from "../../../domain/ids.ts";
import type { SandboxChange } from "../../port.ts";
import type { DockerEngine } from "./engine/engine-calls.ts";
import { having, type Labels, label } from "./names.ts";

const changes: Readonly<Record<string, SandboxChange["change"]>> = {
  start: "started",
  die: "ended",
  oom: "out-of-memory",
  destroy: "removed",
};
const pauseMs = 1_000;
const maxLineBytes = 1024 * 1024;

interface EngineEvent {
  readonly Action?: string;
  readonly time?: number;
  readonly Actor?: { readonly Attributes?: Labels };
}

/**
 * Reports what happens to this installation's sandboxes until the signal, also across a restart of
 * the engine.
 */
export async function* watchContainers(
  engine: DockerEngine,
  installationId: string,
  signal: AbortSignal,
): AsyncIterable<SandboxChange> {
  let since: number | null = null;
  while (!signal.aborted) {
    const stream: Readable | null = await openEvents(engine, installationId, since).catch(() => null); // The engine cannot be reached: try again.
    if (stream !== null) {
      for await (const event of linesOf(stream, signal)) {
        since = event.time ?? since;
        const change = changeOf(event);
        if (change !== null) yield change;
      }
    }
    await delay(pauseMs, undefined, { signal, ref: false }).catch(() => undefined); // The signal came.
  }
}

function openEvents(engine: DockerEngine, installationId: string, since: number | null): Promise<Readable> {
  const labels = having({ [label.installation]: installationId, [label.sandbox]: "" });
  const filters = JSON.stringify({ type: ["container"], event: Object.keys(changes), ...labels });
  // From the second of the last event again, because reporting one twice does no harm.
  const from = since === null ? {} : { since };
  return engine.call("tell its events", async (docker, limited) => {
    // The signal is of no use once the stream is open.
    const stream = await docker.getEvents({ filters, ...from, ...limited } as Parameters<typeof docker.getEvents>[0]);
    return stream as Readable;
  });
}

/** Yields the engine's events; ends without an error when the engine goes or the signal comes. */
async function* linesOf(stream: Readable, signal: AbortSignal): AsyncIterable<EngineEvent> {
  const stop = (): void => void stream.destroy();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    let rest = "";
    for await (const chunk of stream.setEncoding("utf8")) {
      const lines = (rest + chunk).split("\n");
      rest = (lines.pop() ?? "").slice(0, maxLineBytes);
      for (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as EngineEvent;
    }
  } catch {
    // The engine ended or we did. Events are hints, so missing some is fine.
  } finally {
    signal.removeEventListener("abort", stop);
    stream.destroy();
  }
}

function changeOf({ Action, Actor }: EngineEvent): SandboxChange | null {
  const change = changes[Action ?? ""];
  const projectId = Actor?.Attributes?.[label.project];
  const sandboxId = Actor?.Attributes?.[label.sandbox];
  if (change === undefined || projectId === undefined || sandboxId === undefined) return null;
  return { projectId: projectId as ProjectId, sandboxId: sandboxId as SandboxId, change };
}
