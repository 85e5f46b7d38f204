import { notePreviewRequest, previewOfProject, reachPreview } from "../../coordinator/preview/reach-preview.ts";
import { messageOf } from "../../domain/errors.ts";
import { type App, type PreviewProxy, previewProxies, type Reach } from "../parts.ts";
import { aborted } from "./show-preview.ts";

// SP1. Each project with a preview has one loopback port, recorded in its row: the address survives
// builds, waves, a sleeping preview and a restart of `serve`.
// SP2. Of several processes that serve one database, only one opens these ports at a time.

const lookMs = 1_000;
/** How long a connection waits for a starting preview before it gets an answer. */
const patienceMs = 5_000;

export interface ServedPreviews {
  /** Closes the ports; the previews keep running. */
  stop(): Promise<void>;
}

interface ServedOptions {
  tell(message: string): void;
  warn(message: string): void;
}

/** Opens a port for every project's preview, including those of later builds, until `stop`. */
export function servePreviews(app: App, { tell, warn }: ServedOptions): ServedPreviews {
  const stopping = new AbortController();
  const proxies = new Map<string, PreviewProxy>();
  let trouble = "";
  const checkPreviews = async (): Promise<void> => {
    const projectIds = await projectsWithPreviews(app);
    for (const [projectId, proxy] of proxies) {
      if (projectIds.has(projectId)) continue;
      proxies.delete(projectId);
      await proxy.close();
    }
    for (const projectId of projectIds) {
      if (proxies.has(projectId) || stopping.signal.aborted) continue;
      const proxy = await openFor(app, projectId);
      proxies.set(projectId, proxy);
      tell(`preview of ${(await app.store.projects.get({ id: projectId })).name}: ${proxy.origin}`);
    }
  };
  const keepLooking = async (): Promise<void> => {
    try {
      while (!stopping.signal.aborted) {
        await checkPreviews();
        trouble = "";
        await aborted(stopping.signal, lookMs);
      }
    } finally {
      await Promise.all([...proxies.values()].map((proxy) => proxy.close()));
      proxies.clear();
    }
  };
  const served = (async () => {
    while (!stopping.signal.aborted) {
      await app.store.alone("serve previews", keepLooking, { wait: false }).catch((error: unknown) => {
        if (messageOf(error) !== trouble) warn(`previews are unavailable for now: ${messageOf(error)}`);
        trouble = messageOf(error);
      });
      await aborted(stopping.signal, lookMs);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await served;
    },
  };
}

async function projectsWithPreviews({ store }: App): Promise<ReadonlySet<string>> {
  const rows = await store.previews.list({ status: ["starting", "ready", "asleep", "dead"] });
  const builds = await store.builds.pick({ id: rows.map((row) => row.buildId) }, ["projectId"]);
  return new Set(builds.map((build) => build.projectId));
}

/** Opens the project's previous port, or any other if that one is taken. */
async function openFor({ ports, store }: App, projectId: string): Promise<PreviewProxy> {
  const { openPreviewProxy } = await previewProxies();
  const shown = { buildId: "" };
  const reach = async (): Promise<Reach> => {
    const build = await previewOfProject(ports, projectId);
    if (build === null) return { kind: "over", why: "the project shows no preview" };
    shown.buildId = build.id;
    return reachPreview(ports, build.id, patienceMs);
  };
  const used = throttled(() => noteUse(ports, shown.buildId));
  const { previewPort } = await store.projects.get({ id: projectId });
  const proxy = await openPreviewProxy({ reach, used, port: previewPort ?? 0 }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE" || previewPort === null) throw error;
      return openPreviewProxy({ reach, used });
    },
  );
  if (proxy.port !== previewPort) await store.projects.update({ id: projectId }, { previewPort: proxy.port });
  return proxy;
}

async function noteUse(ports: App["ports"], buildId: string): Promise<void> {
  const row = await ports.store.previews.find({ buildId, status: "ready" });
  if (row !== null) await notePreviewRequest(ports, row);
}

const useMs = 10_000;

/**
 * Limits how often use is recorded. Traffic on an open connection counts as use; failing to record
 * it is harmless.
 */
function throttled(note: () => Promise<void>): () => void {
  let noted = Number.NEGATIVE_INFINITY;
  return () => {
    if (performance.now() - noted < useMs) return;
    noted = performance.now();
    note().catch(() => undefined);
  };
}
