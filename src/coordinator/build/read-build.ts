import type { Spending } from "../../domain/models.ts";
import { presentStates } from "../../sandbox-lifecycle/sandbox-events.ts";
import type { BuildRow, OutboxRow, Store } from "../../store/port.ts";
import { liveAttemptsOf } from "../../store/queries/attempts.ts";
import { activeBuildOf } from "../../store/queries/builds.ts";
import { previewAddress } from "../preview/preview-address.ts";
import type { BuildView, PreviewView, StatusView } from "./build-view.ts";
import { createWaveReader, type WaveReader } from "./read-waves.ts";
import { wholeWaves } from "./wave-detail.ts";
import { statusOfWaves } from "./wave-status.ts";

// Reads a build with its tasks, waves, attempts and gates, for people and programs.

export interface BuildReader<View = BuildView> {
  /**
   * Reads the build's current state, but not the parts that cannot have changed since. `row`: the
   * build's row, if the caller has just read it.
   */
  read(row?: BuildRow): Promise<View>;
}

/** Creates a reader that reads one build repeatedly and cheaply. Fails with `not-found`. */
export const createBuildReader = (store: Store, buildId: string): BuildReader =>
  createReader(store, buildId, createWaveReader(store, buildId, wholeWaves));

/** Reads what the status of a build shows. Fails with `not-found`. */
export const readStatus = (store: Store, buildId: string, row?: BuildRow): Promise<StatusView> =>
  createReader(store, buildId, createWaveReader(store, buildId, statusOfWaves)).read(row);

function createReader<Wave>(
  store: Store,
  buildId: string,
  waves: WaveReader<Wave>,
): BuildReader<Omit<BuildView, "waves"> & { readonly waves: readonly Wave[] }> {
  const spending = createSpendingReader(store, buildId);
  let project: string | null = null;
  return {
    async read(row) {
      const build = row ?? (await store.builds.get({ id: buildId }));
      project ??= (await store.projects.get({ id: build.projectId })).name;
      const [work, questions, messages, comments, sandbox, spent, preview, pullRequests] = await Promise.all([
        waves.read(build),
        store.questions.list({ buildId }, { by: "id" }),
        store.messages.list({ buildId }, { by: "id" }),
        store.comments.list({ buildId }, { by: "id" }),
        sandboxOf(store, build),
        spending.read(),
        build.plan.preview === null ? null : readPreview(store, build),
        build.plan.deliver.repo === null ? null : store.pullRequests.list({ buildId }, { by: "waveNumber" }),
      ]);
      const { taskKeys } = work;
      return {
        build,
        project,
        waves: work.waves,
        tasks: work.tasks,
        ...(pullRequests === null ? {} : { pullRequests }),
        preview,
        questions,
        messages: messages.flatMap((message) => {
          const taskKey = taskKeys.get(message.taskId);
          return taskKey === undefined ? [] : [{ ...message, taskKey }];
        }),
        comments: comments.map((comment) => ({
          ...comment,
          taskKey: comment.taskId === null ? null : (taskKeys.get(comment.taskId) ?? null),
        })),
        ...sandbox,
        spending: spent,
      };
    },
  };
}

async function readPreview(store: Store, { id: buildId, projectId, plan }: BuildRow): Promise<PreviewView | null> {
  const row = await store.previews.find({ buildId });
  if (row === null) return null;
  const project = await store.projects.get({ id: projectId });
  const path = plan.preview?.healthPath ?? "/";
  const { ownUrl, localUrl } = previewAddress({ status: row.status, project, path });
  return { ...row, url: ownUrl ?? localUrl };
}

/** Creates a reader of spending, which sums the calls only if one started or ended since. */
function createSpendingReader(store: Store, buildId: string): { read(): Promise<ReadonlyMap<string, Spending>> } {
  let known: { readonly sign: string; readonly spending: ReadonlyMap<string, Spending> } | null = null;
  return {
    async read() {
      const row = await store.buildSpending.find({ buildId });
      if (row === null) return new Map();
      const sign = JSON.stringify(row);
      if (known?.sign !== sign) known = { sign, spending: await store.modelSpending(buildId) };
      return known.spending;
    },
  };
}

/** Returns why these builds' sandboxes wait to start, by build id. */
export async function sandboxWaits(store: Store, builds: readonly BuildRow[]): Promise<ReadonlyMap<string, string>> {
  const running = builds.filter(({ status }) => status === "running");
  const projectId = running.map((build) => build.projectId);
  const rows = await store.sandboxes.pick({ projectId, state: "wanted" }, ["projectId", "reason"]);
  const reasons = new Map(rows.flatMap((row) => (row.reason === null ? [] : [[row.projectId, row.reason]])));
  return new Map(
    running.flatMap(({ id, projectId: of }) => {
      const reason = reasons.get(of);
      return reason === undefined ? [] : [[id, reason]];
    }),
  );
}

async function sandboxOf(
  store: Store,
  { projectId, status, sandboxDriver: driver }: BuildRow,
): Promise<Pick<BuildView, "waitsForSandbox" | "sandboxTrouble" | "sandboxWall">> {
  const row = await store.sandboxes.find({ projectId, driver, state: presentStates });
  const reason = status === "running" ? (row?.reason ?? null) : null;
  return {
    waitsForSandbox: row?.state === "wanted" ? reason : null,
    sandboxTrouble: row?.state === "running" ? reason : null,
    sandboxWall: row?.wall ?? null,
  };
}

/** Returns a text that changes whenever one of a build's live attempts does. */
export async function liveAttempts(store: Store, buildId: string): Promise<string> {
  const live = await liveAttemptsOf(store, buildId);
  return live.map((attempt) => `${attempt.id}${attempt.status}${attempt.fence}`).join();
}

/** Walks the events of a build in the order of their commits. */
export interface EventCursor {
  /** Returns the events since the last call. */
  next(): Promise<OutboxRow[]>;
}

const windowSize = 32;

/** Creates a cursor that starts at the build's first event, or now. */
export async function createEventCursor(store: Store, buildId: string, from: "first" | "now"): Promise<EventCursor> {
  const seen = new Set<number>();
  const next = async (): Promise<OutboxRow[]> => {
    // An event may be committed after one with a higher number, so always reread the last few.
    for (let limit = windowSize; ; limit *= 4) {
      const latest = await store.outbox.list({ buildId }, { by: "seq", descending: true, limit });
      const fresh = latest.filter((row) => !seen.has(row.seq));
      if (fresh.length === latest.length && latest.length === limit) continue;
      for (const row of fresh) seen.add(row.seq);
      return fresh.reverse();
    }
  };
  if (from === "now") await next();
  return { next };
}

/** Returns the build of the same project that must end before this one may run, or null. */
export async function buildAhead(store: Store, build: Pick<BuildRow, "id" | "projectId">): Promise<BuildRow | null> {
  const { projectId } = build;
  const running = await activeBuildOf(store, projectId);
  return running === null || running.id === build.id ? null : running;
}
