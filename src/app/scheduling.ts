import type { Ports } from "../coordinator/port.ts";
import { settleSchedules } from "../coordinator/schedule/settle-schedules.ts";
import { startDueSchedules } from "../coordinator/schedule/start-schedules.ts";
import { storeSchedulesOfMains } from "../coordinator/schedule/store-schedules.ts";
import { messageOf } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";

const lookMs = 5_000;
/** How many polls pass between two readings of the projects' files. */
const looksPerReading = 12;

/** Starts builds by the clock, in a process that serves every project. */
export interface Scheduling {
  start(): void;
  stop(): Promise<void>;
}

/**
 * Creates the loop that runs schedules. Of several processes on one database, only one runs it at a
 * time.
 */
export function createScheduling(ports: Ports, defaultDriver: string, warn: (message: string) => void): Scheduling {
  const seen = new Map<ProjectId, string>();
  let timer: NodeJS.Timeout | null = null;
  let looking: Promise<unknown> = Promise.resolve();
  let looks = 0;
  let trouble = "";
  const look = async (): Promise<void> => {
    if (looks % looksPerReading === 0) await storeSchedulesOfMains(ports, seen);
    looks += 1;
    await settleSchedules(ports);
    await startDueSchedules(ports, defaultDriver);
  };
  const tick = (): void => {
    looking = ports.store
      .alone("start schedules", look, { wait: false })
      .then(() => {
        trouble = "";
      })
      .catch((error: unknown) => {
        if (messageOf(error) !== trouble) warn(`schedules are not started for now: ${messageOf(error)}`);
        trouble = messageOf(error);
      })
      .finally(() => {
        if (timer !== null) timer = setTimeout(tick, lookMs);
      });
  };
  return {
    start() {
      timer = setTimeout(tick, 0);
    },
    async stop() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      await looking;
    },
  };
}
