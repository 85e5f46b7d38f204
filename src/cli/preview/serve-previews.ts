import { recheckPullRequests } from "../../coordinator/outside/recheck-pull-requests.ts";
import { messageOf } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { type PreviewDomain, previewOriginOf } from "../../domain/preview-domain.ts";
import { type App, type PreviewProxy, previewProxies } from "../parts.ts";
import { projectPreview } from "./project-preview.ts";
import { aborted } from "./show-preview.ts";

// SP1. Each project with a preview has one loopback port, recorded in its row: the address survives
// builds, waves, a sleeping preview and a restart of `serve`.
// SP2. Of several processes that serve one database, only one opens these ports at a time.

const lookMs = 1_000;

export interface ServedPreviews {
  /** Closes the ports; the previews keep running. */
  stop(): Promise<void>;
}

interface ServedOptions {
  /** Where previews have hosts of their own, besides their ports. */
  readonly domain: PreviewDomain | null;
  tell(message: string): void;
  warn(message: string): void;
}

/** Opens a port for every project's preview, including those of later builds, until `stop`. */
export function servePreviews(app: App, { domain, tell, warn }: ServedOptions): ServedPreviews {
  const stopping = new AbortController();
  const proxies = new Map<ProjectId, PreviewProxy>();
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
      const previewOrigin = domain === null ? null : previewOriginOf(domain, projectId);
      const { name, previewOrigin: before } = await app.store.projects.get({ id: projectId });
      await app.store.projects.update({ id: projectId }, { previewOrigin });
      // Pull requests link to it.
      if (previewOrigin !== before) await recheckPullRequests(app.store, app.ports, { projectId });
      tell(`preview of ${name}: ${previewOrigin === null ? "" : `${previewOrigin} and `}${proxy.origin}`);
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

async function projectsWithPreviews({ store }: App): Promise<ReadonlySet<ProjectId>> {
  const rows = await store.previews.list({ status: ["starting", "ready", "asleep", "dead"] });
  const builds = await store.builds.pick({ id: rows.map((row) => row.buildId) }, ["projectId"]);
  return new Set(builds.map((build) => build.projectId));
}

/** Opens the project's previous port, or any other if that one is taken. */
async function openFor(app: App, projectId: ProjectId): Promise<PreviewProxy> {
  const { openPreviewProxy } = await previewProxies();
  const { projects } = app.store;
  const preview = projectPreview(app, projectId);
  const { previewPort } = await projects.get({ id: projectId });
  const proxy = await openPreviewProxy({ ...preview, port: previewPort ?? 0 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EADDRINUSE" || previewPort === null) throw error;
    return openPreviewProxy(preview);
  });
  if (proxy.port !== previewPort) await projects.update({ id: projectId }, { previewPort: proxy.port });
  return proxy;
}
