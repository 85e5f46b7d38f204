import { readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { standingFileName } from "../../domain/schedule.ts";
import { type ScheduleChange, type ShownSchedule, withSchedules } from "../builds/schedules.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, oneLine, table } from "../output/format.ts";

/** `schedules`: lists what starts builds by the clock. */
export function listSchedules(context: Context): Promise<number> {
  return withSchedules(context, "look", async (schedules) => {
    const shown = await schedules.list();
    if (shown === null && !context.json) context.out.line("no schedules: nothing has been built here yet");
    else show(context, shown ?? []);
    return exit.ok;
  });
}

function show({ out, json, hints }: Context, schedules: readonly ShownSchedule[]): void {
  if (json) {
    out.json({ schedules });
    return;
  }
  if (schedules.length === 0) out.line(`no schedules: add some under \`on.schedule\` in a ${standingFileName}`);
  for (const line of table(schedules.map((one) => cells(one, new Date())))) out.line(line);
  const paused = schedules.filter(({ status }) => status === "paused");
  if (paused.length > 0)
    out.note(`${count(paused.length, "schedule")} paused; ${hints.command("schedules resume ID")}`);
}

function cells(one: ShownSchedule, now: Date): string[] {
  const next = one.nextAt === null ? "paused" : `next ${one.nextAt.slice(0, 16).replace("T", " ")} UTC`;
  const last = one.lastRunAt === null ? "never ran" : `ran ${ago(new Date(one.lastRunAt), now)} (${one.lastBuildId})`;
  return [one.id, one.project, one.name, `${one.cron} ${one.timezone}`, next, last, oneLine(one.note ?? "")];
}

/** `schedules add [FILE]`: adds the schedules of a `wavesmith.yaml` on this machine. */
export async function addSchedules(context: Context, given: string | undefined): Promise<number> {
  const path = given ?? standingFileName;
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    const why = error.code === "ENOENT" ? `there is no file ${path}` : `cannot read ${path}: ${messageOf(error)}`;
    throw new WavesmithError("usage", why, { remedy: "name the file, or go to its folder" });
  });
  const readPlan = (plan: string): Promise<string | null> =>
    readFile(join(dirname(path), plan), "utf8").catch(() => null);
  return withSchedules(context, "change", async (schedules) => {
    const project = { named: context.options.project, otherwise: basename(dirname(resolve(path))) };
    show(context, await schedules.add({ text, readPlan, project }));
    if (!context.json) context.out.note("`wavesmith serve` starts their builds");
    return exit.ok;
  });
}

/** `schedules pause|resume|remove ID`. */
export function changeSchedule(context: Context, change: ScheduleChange, id: string | undefined): Promise<number> {
  return withSchedules(context, "change", async (schedules) => {
    await schedules.change(present(id, "the id, which the command requires"), change);
    show(context, (await schedules.list()) ?? []);
    return exit.ok;
  });
}
