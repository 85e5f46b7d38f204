import { setTimeout as delay } from "node:timers/promises";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { isAllServed, markServed, type Serving } from "../../store/serving.ts";
import { type Context, refuseServer } from "../context.ts";
import { type App, type Config, type Database, isUsed, openApp, openStore, type Store } from "../parts.ts";
import { recordCommand } from "../request/record-command.ts";
import type { Presenter } from "../view/presenter.ts";

/** The app in a command that drives builds. */
export interface Session {
  readonly app: App;
  readonly config: Config;
  /**
   * Drives the project's builds until `close`. With an Inngest server, requires a running `serve`
   * that does.
   */
  drive(projectId: ProjectId): Promise<void>;
  /** Stops everything within seconds even though nothing can be recorded, as on a full disk. */
  abandon(): Promise<void>;
  /** Stops driving, then the project's sandbox if nobody else uses it, then the database. */
  close(): Promise<void>;
}

/**
 * A second database connection that outlives the app's: it holds the mark and records that the
 * sandbox stopped.
 */
interface Mark {
  readonly store: Store;
  readonly database: Database;
  readonly serving: Serving;
}

/** Runs `work` in a session, then closes it. An error while closing never hides an earlier one. */
export async function withSession<T>(
  context: Context,
  presenter: Presenter,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  await refuseServer(context);
  const session = await openSession(context, presenter);
  let result: T;
  try {
    result = await work(session);
    await recordWords(session, context, typeof result === "number" ? result : 0);
  } catch (error) {
    const end = isDiskFull(error) ? session.abandon() : endOf(session, error);
    await end.catch((failure: unknown) => presenter.warn(messageOf(failure)));
    throw error;
  }
  await session.close();
  return result;
}

/** Adds a command that may have changed something to the audit log. */
async function recordWords({ app }: Session, { words }: Context, result: number): Promise<void> {
  const [action = "", ...rest] = words;
  const target = rest.join(" ").slice(0, 300);
  await recordCommand(app.store, { action, target: target === "" ? null : target, result });
}

/**
 * Without a database there is little to clean up: running jobs continue, and `resume` picks them
 * up.
 */
const endOf = (session: Session, error: unknown): Promise<void> =>
  error instanceof WavesmithError && error.code === "database" ? atMost(closeMs, session.close()) : session.close();

/** Opens the app, showing each phase that takes time. */
async function openSession(context: Context, presenter: Presenter): Promise<Session> {
  const config = await context.config();
  const app = await opened(config, presenter);
  let driven: { projectId: ProjectId; mark: Promise<Mark> } | null = null;
  const session: Session = {
    app,
    config,
    async drive(projectId) {
      if (driven !== null) return;
      if (config.engine.kind === "inngest") return requireServe(config);
      driven = { projectId, mark: makeMark(config, projectId) };
      // `close` awaits this and reports a failure.
      driven.mark.catch(() => undefined);
      await app.start(new Set([projectId]));
    },
    async abandon() {
      if (driven !== null) await atMost(abandonMs, app.abandon(driven.projectId));
      // Whatever waits for the database ends with this process; an unused Postgres stops by itself.
      await atMost(closeMs, session.close());
    },
    async close() {
      const ended = app.close();
      if (driven === null) return ended;
      const { projectId } = driven;
      const mark = await driven.mark.finally(() => ended);
      await ended;
      try {
        await mark.serving.alone(async () => {
          await stopIdleSandbox(app, mark.store, projectId);
          await sleepPreviews(app, mark.store, projectId);
        });
      } finally {
        await mark.serving.end();
        await mark.database.close();
      }
    },
  };
  return session;
}

const abandonMs = 6_000;
const closeMs = 4_000;

async function atMost(ms: number, work: Promise<void>): Promise<void> {
  const over = new AbortController();
  const late = delay(ms, undefined, { signal: over.signal }).catch(() => undefined); // Finished in time.
  await Promise.race([work, late]).finally(() => over.abort());
}

/** Fails unless a `serve` runs, because with an Inngest server only `serve` runs the functions. */
async function requireServe(config: Config): Promise<void> {
  const { database, close } = await openStore(config, "look");
  try {
    if (await isAllServed(database)) return;
  } finally {
    await close();
  }
  throw new WavesmithError(
    "environment",
    "with --engine inngest, builds run in `wavesmith serve`, which is not running",
    {
      remedy: "start it in another terminal with the same data directory: wavesmith serve --engine inngest",
    },
  );
}

async function opened(config: Config, presenter: Presenter): Promise<App> {
  const first = `first run: creating the database in ${config.dataDir} (a few seconds, once)`;
  presenter.phase(isUsed(config) ? "starting the database" : first);
  return openApp(config, (message) => presenter.warn(message));
}

async function makeMark(config: Config, projectId: ProjectId): Promise<Mark> {
  const { store, database } = await openStore(config, "mark");
  return { store, database, serving: await markServed(database, projectId) };
}

/**
 * Puts the project's previews to sleep, because without a driving process nobody can reach them.
 */
async function sleepPreviews(app: App, store: Store, projectId: ProjectId): Promise<void> {
  const { sleepPreviewsOf } = await import("../../coordinator/preview/sleep-preview.ts");
  const reason = "the command that drove its build ended";
  await sleepPreviewsOf({ ...app.ports, store }, projectId, reason).catch((error: unknown) => {
    if (!isDiskFull(error)) throw error;
    return app.abandon(projectId); // The full disk keeps it from being recorded; stop it anyway.
  });
}

/** Stops a project's sandbox unless jobs are running in it. */
export async function stopIdleSandbox(app: App, store: Store, projectId: ProjectId): Promise<"stopped" | "at-work"> {
  const sandbox = await store.sandboxes.find({ projectId, state: ["wanted", "running"] });
  if (sandbox === null) return "stopped";
  const endpoint = await app.ports.driver(sandbox.driver).find(projectId);
  if (endpoint === null) return "stopped";
  if ((await endpoint.guest.health()).activeJobs > 0) return "at-work";
  const { stopSandbox } = await import("../../sandbox-lifecycle/stop-sandbox.ts");
  await stopSandbox({ ...app.ports, store }, sandbox, "no longer used").catch((error: unknown) => {
    if (!isDiskFull(error)) throw error;
    return app.abandon(projectId); // The full disk keeps it from being recorded; stop it anyway.
  });
  return "stopped";
}
