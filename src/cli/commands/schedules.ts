import { readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { scheduleJson } from "../../api/schedules.ts";
import { defaultTenant, projectIdFor, tenantIdFor } from "../../coordinator/build/request/project.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { standingFileName } from "../../domain/schedule.ts";
import type { Context } from "../context.ts";
import { withStore } from "../data/reading.ts";
import { withSession } from "../data/session.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, oneLine, table } from "../output/format.ts";
import type { App, Store } from "../parts.ts";
import { createPresenter } from "../view/presenter.ts";

type ShownSchedule = ReturnType<typeof scheduleJson>;

/** `schedules`: lists what starts builds by the clock. */
export function listSchedules(context: Context): Promise<number> {
  const { out, json } = context;
  return withStore(context, "schedules", {
    unused: () => {
      if (json) out.json({ schedules: [] });
      else out.line("no schedules: nothing was built here yet");
      return exit.ok;
    },
    read: async ({ store }) => {
      show(context, await shownSchedules(store));
      return exit.ok;
    },
  });
}

async function shownSchedules(store: Store, projectId?: string): Promise<ShownSchedule[]> {
  const rows = await store.schedules.list(projectId === undefined ? {} : { projectId }, { by: "nextAt" });
  return Promise.all(
    rows.map(async (row) => scheduleJson(row, (await store.projects.get({ id: row.projectId })).name)),
  );
}

function show({ out, json, hints }: Context, schedules: readonly ShownSchedule[]): void {
  if (json) {
    out.json({ schedules });
    return;
  }
  if (schedules.length === 0) out.line(`no schedules: \`on.schedule\` of a ${standingFileName} makes some`);
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
  return inDataDirectory(context, async ({ ports }) => {
    const { standingOf } = await import("../../coordinator/schedule/standing-request.ts");
    const { storeSchedules } = await import("../../coordinator/schedule/store-schedules.ts");
    const standing = await standingOf(ports, text, (plan) =>
      readFile(join(dirname(path), plan), "utf8").catch(() => null),
    );
    const { plan } = standing.request as { plan?: { name?: string } };
    const name = context.options.project ?? plan?.name ?? basename(dirname(resolve(path)));
    const projectId = projectIdFor(defaultTenant, name);
    const tenantId = tenantIdFor(defaultTenant);
    await ports.store.tenants.insertIfAbsent({ id: tenantId, name: defaultTenant });
    await ports.store.projects.insertIfAbsent({ id: projectId, tenantId, name });
    await storeSchedules(ports, { projectId, origin: "file" }, standing);
    show(context, await shownSchedules(ports.store, projectId));
    if (!context.json) context.out.note("`wavesmith serve` starts their builds");
    return exit.ok;
  });
}

/** Opens the app, even in a data directory in which nothing was built yet. */
async function inDataDirectory(context: Context, work: (app: App) => Promise<number>): Promise<number> {
  const presenter = createPresenter(context);
  try {
    return await withSession(context, presenter, ({ app }) => work(app));
  } finally {
    presenter.close();
  }
}

/** `schedules pause|resume|remove ID`. */
export function changeSchedule(
  context: Context,
  change: "pause" | "resume" | "remove",
  id: string | undefined,
): Promise<number> {
  return inDataDirectory(context, async ({ ports }) => {
    const { pauseSchedule, removeSchedule, resumeSchedule } = await import(
      "../../coordinator/schedule/resume-schedule.ts"
    );
    const wanted = present(id, "the id, which the command requires");
    if (change === "remove") await removeSchedule(ports, wanted);
    else await (change === "pause" ? pauseSchedule : resumeSchedule)(ports, wanted);
    show(context, await shownSchedules(ports.store));
    return exit.ok;
  });
}
