import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { reconcileBuilds } from "../coordinator/build/reconcile.ts";
import { askDuePullRequests } from "../coordinator/forge/pull-request.ts";
import { type JobWatcher, watchJobs } from "../coordinator/job/watch-jobs.ts";
import type { Relay } from "../coordinator/next/relay.ts";
import { deliverDueNotices } from "../coordinator/notification/deliver-notices.ts";
import type { Ports } from "../coordinator/port.ts";
import { isDiskFull } from "../domain/disk-full.ts";
import { messageOf } from "../domain/errors.ts";
import { hearSandboxes, type SandboxHearing } from "../sandbox-lifecycle/upkeep/hear-sandboxes.ts";
import type { Database } from "../store/connection/connection.ts";
import type { DriversInUse } from "./drivers-in-use.ts";
import { createRepetition, type Repetition } from "./repetition.ts";
import type { Runner } from "./runner.ts";

const reconcileMs = 1_000;
/** How long the end of a process waits for the last notices. */
const lastNoticesMs = 5_000;

export interface Driving {
  start(projectIds: "all" | Set<string>): Promise<JobWatcher>;
  reconcile(): Promise<void>;
  stop(): Promise<void>;
}

/** The loops of a process that drives builds: engine, watcher, reconciler. */
export function createDriving(parts: {
  database: Database;
  runner: Runner;
  ports: Ports;
  relay: Relay;
  sandboxes: DriversInUse;
  warn: (message: string, error?: unknown) => void;
}): Driving {
  const { database, runner, ports, relay, sandboxes } = parts;
  const owner = `proc_${createHash("sha256").update(`${process.pid}:${Date.now()}:${Math.random()}`).digest("hex").slice(0, 16)}`;
  let watcher: JobWatcher | null = null;
  let hearing: SandboxHearing | null = null;
  let registration: { release(): Promise<void> } | null = null;
  let projects: "all" | ReadonlySet<string> = new Set();
  const reconcile = async (): Promise<void> => {
    await reconcileBuilds(ports, projects);
    await askDuePullRequests(ports, projects);
    await relay.flush();
  };
  const notices = createNoticeLoop(async () => {
    const warn = (error: unknown) => parts.warn(`notifying failed: ${messageOf(error)}`, error);
    await deliverDueNotices(ports, projects).catch(warn);
  });
  const rounds = createRounds({
    begin: () => void notices.deliver(),
    reconcile,
    ensureDatabase: () => database.ensureRunning(),
    warn: parts.warn,
  });
  return {
    async start(projectIds) {
      projects = projectIds;
      registration = await ports.store.registerProcess(owner);
      runner.start(projectIds);
      watcher = watchJobs(ports, { owner, projectIds, flush: () => relay.flush() });
      const heard = hearSandboxes(ports, { projectIds, flush: () => relay.flush() });
      hearing = heard;
      sandboxes.onDriverUse((name) => heard.hear(name));
      rounds.start();
      return watcher;
    },
    reconcile,
    async stop() {
      await rounds.stop();
      await hearing?.stop();
      // Close each part even if the one before failed, as all of them may do on a full disk.
      const stopped = runner.stop().finally(() => watcher?.stop());
      await stopped.finally(() => registration?.release());
      if (registration === null) return;
      await Promise.race([notices.deliver(), delay(lastNoticesMs, undefined, { ref: false })]);
    },
  };
}

interface RoundsParts {
  /** Called at the beginning of each round. */
  readonly begin: () => void;
  readonly reconcile: () => Promise<void>;
  /** Starts a database that has died, so that the builds continue. */
  readonly ensureDatabase: () => Promise<unknown>;
  readonly warn: (message: string, error?: unknown) => void;
}

/** Reconciles repeatedly, with a pause between two rounds. */
function createRounds({ begin, reconcile, ensureDatabase, warn }: RoundsParts): Repetition {
  let trouble = "";
  const recover = async (error: unknown): Promise<void> => {
    // The error repeats every second until its cause is gone, so warn once.
    if (isDiskFull(error) || messageOf(error) !== trouble) warn(`reconciling failed: ${messageOf(error)}`, error);
    trouble = messageOf(error);
    await ensureDatabase().catch((failure: unknown) => warn(messageOf(failure)));
  };
  const clearTrouble = (): void => {
    trouble = "";
  };
  return createRepetition(async () => {
    begin();
    await reconcile().then(clearTrouble, recover);
    return reconcileMs;
  });
}

/** Delivers due notices beside everything else, so that a slow receiver holds nothing up. */
function createNoticeLoop(deliverDue: () => Promise<void>): { deliver(): Promise<void> } {
  let delivering: Promise<void> | null = null;
  return {
    deliver() {
      delivering ??= deliverDue().finally(() => {
        delivering = null;
      });
      return delivering;
    },
  };
}
