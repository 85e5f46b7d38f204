import { Cron } from "croner";
import { messageOf, WavesmithError } from "../../domain/errors.ts";

/** Returns the first tick after a time; both are in ms since 1970. */
export type NextTick = (afterMs: number) => number;

/**
 * Compiles five cron fields, in UTC or with Inngest's `TZ=Europe/Paris ` prefix; throws if they are
 * invalid.
 */
export function compileCron(expression: string, place: string): NextTick {
  const [, timezone, fields] = /^(?:TZ=(\S+)\s+)?(.*)$/.exec(expression.trim()) ?? [];
  if (fields === undefined || fields.split(/\s+/).length !== 5)
    throw badCron(expression, place, "it does not have five fields");
  let cron: Cron;
  try {
    // Computing a tick by a zone's name takes 20 ms, so use a plain offset when no zone is given.
    const zoneOptions = timezone === undefined ? { utcOffset: 0 } : { timezone };
    cron = new Cron(fields, { ...zoneOptions, paused: true });
    cron.nextRun();
  } catch (error) {
    throw badCron(expression, place, messageOf(error));
  }
  return (afterMs) => {
    const tick = cron.nextRun(new Date(afterMs));
    if (tick === null) throw badCron(expression, place, "no date matches it");
    return tick.getTime();
  };
}

const badCron = (expression: string, place: string, reason: string) =>
  new WavesmithError("unsupported", `${place} has the cron ${JSON.stringify(expression)}: ${reason}`, {
    remedy: "write minute, hour, day of month, month and day of week, with TZ=<zone> before them if needed",
  });
