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
  let timer: NodeJS.Timeout | null = null;
  let projects: "all" | ReadonlySet<string> = new Set();
  let trouble = "";
  let lastRound: Promise<void> = Promise.resolve();
  const reconcile = async (): Promise<void> => {
    await reconcileBuilds(ports, projects);
    await askDuePullRequests(ports, projects);
    await relay.flush();
  };
  let notices: Promise<unknown> = Promise.resolve();
  let isTelling = false;
  /** Sends due notices beside everything else: a slow receiver holds nothing up. */
  const tell = (): void => {
    if (isTelling) return;
    isTelling = true;
    notices = deliverDueNotices(ports, projects)
      .catch((error: unknown) => parts.warn(`notifying failed: ${messageOf(error)}`, error))
      .finally(() => {
        isTelling = false;
      });
  };
  const tick = (): void => {
    tell();
    const clearTrouble = (): void => {
      trouble = "";
    };
    lastRound = reconcile().then(clearTrouble, async (error: unknown) => {
      // The error repeats every second until its cause is gone, so warn once.
      if (isDiskFull(error) || messageOf(error) !== trouble)
        parts.warn(`reconciling failed: ${messageOf(error)}`, error);
      trouble = messageOf(error);
      // A killed Postgres is restarted, and the build continues.
      await database.ensureRunning().catch((failure: unknown) => parts.warn(messageOf(failure)));
    });
    void lastRound.then(() => {
      if (timer !== null) timer = setTimeout(tick, reconcileMs);
    });
  };
  return {
    async start(projectIds) {
      projects = projectIds;
      registration = await ports.store.registerProcess(owner);
      runner.start(projectIds);
      watcher = watchJobs(ports, { owner, projectIds, flush: () => relay.flush() });
      const heard = hearSandboxes(ports, { projectIds, flush: () => relay.flush() });
      hearing = heard;
      sandboxes.onDriverUse((name) => heard.hear(name));
      timer = setTimeout(tick, 0);
      return watcher;
    },
    reconcile,
    async stop() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      await lastRound;
      await hearing?.stop();
      // Close each part even if the one before failed, as all of them may do on a full disk.
      const stopped = runner.stop().finally(() => watcher?.stop());
      await stopped.finally(() => registration?.release());
      if (registration === null) return;
      tell();
      await Promise.race([notices, delay(lastNoticesMs, undefined, { ref: false })]);
    },
  };
}
