import { buildIdsLike, buildListJson, spentInAll } from "../../api/build-list.ts";
import { diffSpan, maxDiffBytes } from "../../api/diff-span.ts";
import { jobOutputs, outputAfter } from "../../api/job-output.ts";
import { createBuildReader, createEventCursor, liveAttempts } from "../../coordinator/build/read-build.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import { movingBuildStatuses } from "../../domain/status.ts";
import { isAllServed, isServed } from "../../store/serving.ts";
import { waitingPlanFile } from "../driving/waiting-plan.ts";
import { authorityPath, type Config, createWorkspaceFor, type Database, type Store } from "../parts.ts";
import type { Builds, BuildWatch } from "./port.ts";

interface Directory {
  readonly config: Config;
  readonly store: Store;
  /** Tells which projects a live process drives. */
  database(): Promise<Database>;
}

/** The builds of a data directory. */
export function directoryBuilds({ config, store, database }: Directory): Builds {
  const where = (project: string | undefined) =>
    project === undefined ? {} : { projectId: projectIdFor("default", project) };
  return {
    place: config.dataDir,
    idsLike: (start) => buildIdsLike(store, start),
    async latest(project) {
      const [row] = await store.builds.list(where(project), { by: "createdAt", descending: true, limit: 1 });
      return row?.id ?? null;
    },
    async list(project, limit) {
      const rows = await store.builds.list(where(project), { by: "createdAt", descending: true, limit: limit + 1 });
      const shown = rows.slice(0, limit);
      const [builds, spent] = await Promise.all([buildListJson(store, shown), spentInAll(store, shown)]);
      return { builds, more: rows.length > limit, spent };
    },
    async see(buildId) {
      const view = await createBuildReader(store, buildId).read();
      const { status, projectId } = view.build;
      const moves = movingBuildStatuses.includes(status);
      const authority = await authorityPath(config, projectId);
      return {
        view,
        interrupted: moves && !(await isServed(await database(), projectId)),
        isServed: view.preview !== null && (await isAllServed(await database())),
        ...{ repository: authority, authority },
        planFile: waitingPlanFile(config, view),
      };
    },
    watch: (buildId, from) => watchRows(store, buildId, from),
    isDriven: async ({ build }) => isServed(await database(), build.projectId),
    status: async (buildId) => (await store.builds.get({ id: buildId })).status,
    jobs: (buildId) => jobOutputs(store, buildId),
    output: (_, jobKey, after) => outputAfter(store, jobKey, { after, limit: 128 }),
    async changes(buildId, of) {
      const span = await diffSpan(store, buildId, of);
      const workspace = await createWorkspaceFor(config);
      return { ...span, files: await workspace.changedFiles(span.projectId, span.from, span.to) };
    },
    async diff(buildId, of) {
      const { projectId, from, to } = await diffSpan(store, buildId, of);
      return (await createWorkspaceFor(config)).diff(projectId, from, to, { maxBytes: maxDiffBytes });
    },
    fetchResult: ({ build }) => authorityPath(config, build.projectId),
  };
}

async function watchRows(store: Store, buildId: string, from: "first" | "now"): Promise<BuildWatch> {
  const reader = createBuildReader(store, buildId);
  const cursor = await createEventCursor(store, buildId, from);
  let sign = "";
  return {
    async next() {
      const events = await cursor.next();
      const before = sign;
      sign = await liveAttempts(store, buildId);
      return { events, isChanged: sign !== before };
    },
    read: () => reader.read(),
    close: () => undefined,
  };
}
