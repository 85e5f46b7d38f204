import { Cron } from "croner";
import { messageOf, WavesmithError } from "../domain/errors.ts";

/** Computes the first tick after a moment, both in ms since 1970. */
export type NextTick = (afterMs: number) => number;

/**
 * Reads five cron fields, in UTC or with Inngest's `TZ=Europe/Paris ` before them; refuses what is
 * no such thing.
 */
export function compileCron(expression: string, place: string): NextTick {
  const [, timezone, fields] = /^(?:TZ=(\S+)\s+)?(.*)$/.exec(expression.trim()) ?? [];
  if (fields === undefined || fields.split(/\s+/).length !== 5)
    throw badCron(expression, place, "it has not five fields");
  let cron: Cron;
  try {
    // To find ticks by a zone's name takes 20 ms each: where none is named there is no need to.
    const zone = timezone === undefined ? { utcOffset: 0 } : { timezone };
    cron = new Cron(fields, { ...zone, paused: true });
    cron.nextRun();
  } catch (error) {
    throw badCron(expression, place, messageOf(error));
  }
  return (afterMs) => {
    const tick = cron.nextRun(new Date(afterMs));
    if (tick === null) throw badCron(expression, place, "it never comes");
    return tick.getTime();
  };
}

const badCron = (expression: string, place: string, why: string) =>
  new WavesmithError("unsupported", `${place} has the cron ${JSON.stringify(expression)}: ${why}`, {
    remedy: "write minute, hour, day of month, month and day of week, with TZ=<zone> before them if need be",
  });
