import type { Ports } from "../coordinator/port.ts";
import { settleSchedules } from "../coordinator/schedule/settle-schedules.ts";
import { startDueSchedules } from "../coordinator/schedule/start-schedules.ts";
import { storeSchedulesOfMains } from "../coordinator/schedule/store-schedules.ts";
import { messageOf } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { createRepetition, type Repetition } from "./repetition.ts";

const lookMs = 5_000;
/** How many polls pass between two readings of the projects' files. */
const looksPerReading = 12;

/**
 * Creates the loop that starts builds by the clock, in a process that serves every project. Of
 * several processes on one database, only one runs it at a time.
 */
export function createScheduling(ports: Ports, defaultDriver: string, warn: (message: string) => void): Repetition {
  const seen = new Map<ProjectId, string>();
  let looks = 0;
  let trouble = "";
  const look = async (): Promise<void> => {
    if (looks % looksPerReading === 0) await storeSchedulesOfMains(ports, seen);
    looks += 1;
    await settleSchedules(ports);
    await startDueSchedules(ports, defaultDriver);
  };
  return createRepetition(async () => {
    try {
      await ports.store.alone("start schedules", look, { wait: false });
      trouble = "";
    } catch (error) {
      if (messageOf(error) !== trouble) warn(`schedules are not started for now: ${messageOf(error)}`);
      trouble = messageOf(error);
    }
    return lookMs;
  });
}
