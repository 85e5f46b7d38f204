import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../domain/errors.ts";
import type { BuildRow, PreviewRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { findPreviewSandbox } from "./preview-sandbox.ts";
import { wakePreview } from "./wake-preview.ts";

/** A connection to a preview, or the reason why there is none: it is starting, or it has ended. */
export type PreviewReach =
  | { readonly kind: "connected"; readonly connection: Duplex }
  | { readonly kind: "starting" | "over"; readonly why: string };

const pollMs = 100;
/**
 * How old the last recorded request must be before another is recorded, so that a page with many
 * files is one write.
 */
const requestMs = 10_000;

/**
 * Connects to the preview of a build, waking it if it sleeps. Waits up to `patienceMs` for one that
 * is starting. Records the time of the request, so that a preview in use stays awake.
 */
export async function reachPreview(ports: Ports, buildId: string, patienceMs: number): Promise<PreviewReach> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const row = await ports.store.previews.find({ buildId });
    if (row === null) return { kind: "over", why: `build ${buildId} has no preview` };
    if (row.status === "dead" || row.status === "stopped")
      return { kind: "over", why: row.reason ?? `it is ${row.status}` };
    await notePreviewRequest(ports, row);
    if (row.status === "asleep") await wakePreview(ports, buildId);
    const connection = row.status === "ready" ? await connectTo(ports, row) : "it is being started";
    if (typeof connection !== "string") return { kind: "connected", connection };
    if (performance.now() >= deadline) return { kind: "starting", why: connection };
    await delay(pollMs);
  }
}

/** Records that somebody asks for the preview now. */
export async function notePreviewRequest(ports: Ports, row: PreviewRow): Promise<void> {
  const { buildId, jobKey, requestedAt } = row;
  const now = ports.clock.now();
  if (requestedAt !== null && now.getTime() - requestedAt.getTime() < requestMs) return;
  await ports.store.previews.update({ buildId, jobKey, requestedAt }, { requestedAt: now });
}

async function connectTo(ports: Ports, { buildId, port, sandboxId }: PreviewRow): Promise<Duplex | string> {
  try {
    const endpoint = await findPreviewSandbox(ports, await ports.store.builds.get({ id: buildId }));
    if (endpoint === null || endpoint.sandboxId !== sandboxId) return "its sandbox has ended and is being restarted";
    return await endpoint.guest.tunnel(port);
  } catch (error) {
    return `it does not answer: ${messageOf(error)}`;
  }
}

/**
 * Returns the build whose preview the project shows now, otherwise the last one whose preview is
 * dead; null when there is none.
 */
export async function previewOfProject(ports: Ports, projectId: string): Promise<BuildRow | null> {
  const rows = await ports.store.previews.list({ status: ["starting", "ready", "asleep", "dead"] });
  const builds = await ports.store.builds.list(
    { projectId, id: rows.map((row) => row.buildId) },
    { by: "position", descending: true },
  );
  const isDead = ({ id }: BuildRow): boolean => rows.some((row) => row.buildId === id && row.status === "dead");
  return builds.find((build) => !isDead(build)) ?? builds[0] ?? null;
}
