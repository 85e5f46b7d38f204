import { type ScheduleView, scheduleJson } from "../../api/schedules.ts";
import { defaultTenant, projectIdFor, tenantIdFor } from "../../coordinator/build/request/project.ts";
import type { Context } from "../context.ts";
import { withSession } from "../data/session.ts";
import { type App, isUsed, openStore, type Store } from "../parts.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";
import { createPresenter } from "../view/presenter.ts";

export type ShownSchedule = Omit<ScheduleView, "id" | "projectId" | "lastBuildId" | "origin"> & {
  readonly id: string;
  readonly projectId: string;
  readonly lastBuildId: string | null;
};
export type ScheduleChange = "pause" | "resume" | "remove";

/** A `wavesmith.yaml` on this machine. */
interface AddedFile {
  readonly text: string;
  /** Reads the plan that it names; null if there is none. */
  readonly readPlan: (path: string) => Promise<string | null>;
  /** The project's name, or the one to use if the plan has none. */
  readonly project: { readonly named: string | undefined; readonly otherwise: string };
}

/** The schedules of a data directory or of a server. */
interface Schedules {
  /** Lists the next one first; null if nothing was ever built here. */
  list(): Promise<readonly ShownSchedule[] | null>;
  /** Returns the schedules of the file's project. */
  add(file: AddedFile): Promise<readonly ShownSchedule[]>;
  change(id: string, change: ScheduleChange): Promise<void>;
}

/** Opens the schedules; looking at them does not make a data directory. */
export async function withSchedules(
  context: Context,
  purpose: "look" | "change",
  work: (schedules: Schedules) => Promise<number>,
): Promise<number> {
  const server = await serverApi(context);
  if (server !== null) return work(serverSchedules(context, server));
  if (purpose === "look") return lookAt(context, work);
  const presenter = createPresenter(context);
  try {
    return await withSession(context, presenter, ({ app }) => work(directorySchedules(app)));
  } finally {
    presenter.close();
  }
}

async function lookAt(context: Context, work: (schedules: Schedules) => Promise<number>): Promise<number> {
  const config = await context.config();
  const unchanged = (): Promise<never> => Promise.reject(new Error("the schedules are only looked at"));
  const looked = (list: Schedules["list"]): Schedules => ({ list, add: unchanged, change: unchanged });
  if (!isUsed(config)) return work(looked(async () => null));
  const { store, close } = await openStore(config, "schedules", context.warn);
  try {
    return await work(looked(() => storedSchedules(store)));
  } finally {
    await close();
  }
}

async function storedSchedules(store: Store, projectId?: string): Promise<ShownSchedule[]> {
  const rows = await store.schedules.list(projectId === undefined ? {} : { projectId }, { by: "nextAt" });
  return Promise.all(
    rows.map(async (row) => scheduleJson(row, (await store.projects.get({ id: row.projectId })).name)),
  );
}

function directorySchedules({ ports }: App): Schedules {
  const { store } = ports;
  return {
    list: () => storedSchedules(store),
    async add({ text, readPlan, project }) {
      const { standingOf } = await import("../../coordinator/schedule/standing-request.ts");
      const { storeSchedules } = await import("../../coordinator/schedule/store-schedules.ts");
      const standing = await standingOf(ports, text, readPlan);
      const name = project.named ?? nameIn(standing.request.plan) ?? project.otherwise;
      const projectId = projectIdFor(defaultTenant, name);
      const tenantId = tenantIdFor(defaultTenant);
      await store.tenants.insertIfAbsent({ id: tenantId, name: defaultTenant });
      await store.projects.insertIfAbsent({ id: projectId, tenantId, name });
      await storeSchedules(ports, { projectId, origin: "file" }, standing);
      return storedSchedules(store, projectId);
    },
    async change(id, change) {
      const { pauseSchedule, removeSchedule, resumeSchedule } = await import(
        "../../coordinator/schedule/resume-schedule.ts"
      );
      if (change === "remove") await removeSchedule(ports, id);
      else await (change === "pause" ? pauseSchedule : resumeSchedule)(ports, id);
    },
  };
}

const nameIn = (plan: unknown): string | undefined => (plan as { readonly name?: string } | undefined)?.name;

function serverSchedules(context: Context, { api, ask }: ServerApi): Schedules {
  const list = async (): Promise<readonly ShownSchedule[]> => (await ask(api.GET("/api/v1/schedules"))).items;
  return {
    list,
    async add({ text, readPlan, project }) {
      const { standingFileWithPlan } = await import("../../coordinator/schedule/standing-request.ts");
      const { environment } = await context.config();
      const file = await standingFileWithPlan(environment, text, readPlan);
      const name = project.named ?? nameIn(file.plan) ?? project.otherwise;
      const { id } = await ask(api.POST("/api/v1/projects", { body: { name } }));
      const body = { ...file };
      await ask(api.PUT("/api/v1/projects/{id}/schedules", { params: { path: { id } }, body }));
      return (await list()).filter(({ projectId }) => projectId === id);
    },
    async change(id, change) {
      const at = { params: { path: { id } } };
      if (change === "remove") await ask(api.DELETE("/api/v1/schedules/{id}", at));
      else await ask(api.POST(`/api/v1/schedules/{id}/${change}`, at));
    },
  };
}
