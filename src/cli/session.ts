import { setTimeout as delay } from "node:timers/promises";
import { isDiskFull } from "../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import type { Context } from "./context.ts";
import { type App, type Config, type Database, isUsed, openApp, openStore, type Store } from "./parts.ts";
import { isAllServed, markServed, type Serving } from "./serving.ts";
import type { Presenter } from "./view/presenter.ts";

/** The wired parts in a command that drives builds. */
export interface Session {
  readonly app: App;
  readonly config: Config;
  /**
   * Drives the builds of this project from now on, until `close`; with an Inngest server it asks
   * for a `serve` that does.
   */
  drive(projectId: ProjectId): Promise<void>;
  /**
   * Ends what runs although nothing can be recorded, as on a full disk; takes some seconds at most.
   */
  abandon(): Promise<void>;
  /** Stops driving, then the project's sandbox when nobody else uses it, then the database. */
  close(): Promise<void>;
}

/**
 * A second use of the database, which outlasts the app's: it holds the mark and sees the sandbox
 * stopped.
 */
interface Mark {
  readonly store: Store;
  readonly database: Database;
  readonly serving: Serving;
}

/**
 * Does `work` in a session and closes it; what went wrong at the closing never hides what went
 * wrong before.
 */
export async function withSession<T>(
  context: Context,
  presenter: Presenter,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await openSession(context, presenter);
  let result: T;
  try {
    result = await work(session);
  } catch (error) {
    const end = isDiskFull(error) ? session.abandon() : endOf(session, error);
    await end.catch((failure: unknown) => presenter.warn(messageOf(failure)));
    throw error;
  }
  await session.close();
  return result;
}

/**
 * Without a database there is little to put away: jobs at work go on, and a resume takes them up.
 */
const endOf = (session: Session, error: unknown): Promise<void> =>
  error instanceof WavesmithError && error.code === "database" ? atMost(closeMs, session.close()) : session.close();

/** Opens everything, telling of what takes time. */
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
      // Whoever needs it waits for it; until then a failure is nobody's.
      driven.mark.catch(() => undefined);
      await app.start(new Set([projectId]));
    },
    async abandon() {
      if (driven !== null) await atMost(abandonMs, app.abandon(driven.projectId));
      // What hangs on the database ends with this process; Postgres stops by itself once nobody
      // uses it.
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
  const late = delay(ms, undefined, { signal: over.signal }).catch(() => undefined); // Over before it was late.
  await Promise.race([work, late]).finally(() => over.abort());
}

/** With an Inngest server the functions are where `serve` is; a command asks and follows. */
async function requireServe(config: Config): Promise<void> {
  const { database, close } = await openStore(config, "look");
  try {
    if (await isAllServed(database)) return;
  } finally {
    await close();
  }
  throw new WavesmithError("environment", "with --engine inngest a build runs in `wavesmith serve`, and none runs", {
    remedy: "start it beside this command, on the same data directory: wavesmith serve --engine inngest",
  });
}

async function opened(config: Config, presenter: Presenter): Promise<App> {
  const first = `first run: making the database in ${config.dataDir} (a few seconds, once)`;
  presenter.phase(isUsed(config) ? "starting the database" : first);
  return openApp(config, (message) => presenter.warn(message));
}

async function makeMark(config: Config, projectId: ProjectId): Promise<Mark> {
  const { store, database } = await openStore(config, "mark");
  return { store, database, serving: await markServed(database, projectId) };
}

/** Where nobody drives a project, nobody reaches its preview. */
async function sleepPreviews(app: App, store: Store, projectId: ProjectId): Promise<void> {
  const { sleepPreviewsOf } = await import("../coordinator/preview/sleep-preview.ts");
  const reason = "the command that drove its build ended";
  await sleepPreviewsOf({ ...app.ports, store }, projectId, reason).catch((error: unknown) => {
    if (!isDiskFull(error)) throw error;
    return app.abandon(projectId); // It ends all the same, though nothing can be recorded.
  });
}

/** Stops a project's sandbox unless jobs are at work in it. */
export async function stopIdleSandbox(app: App, store: Store, projectId: ProjectId): Promise<"stopped" | "at-work"> {
  const sandbox = await store.sandboxes.find({ projectId, state: ["wanted", "running"] });
  if (sandbox === null) return "stopped";
  const endpoint = await app.ports.driver(sandbox.driver).find(projectId);
  if (endpoint === null) return "stopped";
  if ((await endpoint.guest.health()).activeJobs > 0) return "at-work";
  const { stopSandbox } = await import("../coordinator/sandboxes/stop-sandbox.ts");
  await stopSandbox({ ...app.ports, store }, sandbox, "no longer used").catch((error: unknown) => {
    if (!isDiskFull(error)) throw error;
    return app.abandon(projectId); // It ends all the same, though nothing can be recorded.
  });
  return "stopped";
}
