import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { buildIdForEvent } from "../../domain/events/request-ids.ts";
import { present } from "../../domain/known.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import { countCronTimes, nextCronTime } from "../../plan/standing/cron-times.ts";
import type { ScheduleRow } from "../../store/port.ts";
import { refuseForEvents } from "../build/request/build-request.ts";
import { requestBuild } from "../build/request/request-build.ts";
import type { Ports } from "../port.ts";
import { countFailure } from "./schedule-failures.ts";
import { ofTenant } from "./standing-request.ts";

// SR1. The id of a build's request is made from the schedule and the time at which it was due. So
// two servers, or a server that is killed and restarted, start only one build for it.
// SR2. After the server was down, a schedule runs once, however many times it missed, and says so.

const atOnce = 200;
/** A run that starts later than this counts as missed. */
const punctualMs = 5 * 60_000;
const countedAtMost = 1_000;

/** Starts the builds of the schedules that are due. Returns how many were due. */
export async function startDueSchedules(ports: Ports, defaultDriver: string): Promise<number> {
  const now = ports.clock.now();
  const active = await ports.store.schedules.list({ status: "active" }, { by: "nextAt", limit: atOnce });
  const due = active.filter(({ nextAt }) => nextAt <= now);
  let failure: unknown = null;
  for (const row of due) {
    // A tenant over its limit must not keep the schedules of others from starting.
    await startRun(ports, row, { now, defaultDriver }).catch((error: unknown) => (failure ??= error));
  }
  if (failure !== null) throw failure;
  return due.length;
}

interface Run {
  readonly now: Date;
  readonly defaultDriver: string;
}

async function startRun(ports: Ports, row: ScheduleRow, { now, defaultDriver }: Run): Promise<void> {
  const { schedules } = ports.store;
  const mine = { id: row.id, nextAt: row.nextAt, status: "active" } as const;
  const nextAt = present(nextCronTime(row, now), "the next time of a checked cron");
  const running = await unfinishedBuild(ports, row);
  if (running !== null) {
    const note = `not started at ${momentOf(row.nextAt)}: build ${running} was still running`;
    await schedules.update(mine, { nextAt, note });
    return;
  }
  const note = missed(row, now);
  if (note !== null) ports.log.warn(`the schedule ${row.name} (${row.id}): ${note}`);
  try {
    const lastBuildId = await request(ports, row, defaultDriver);
    await schedules.update(mine, { nextAt, lastBuildId, lastRunAt: now, isSettled: false, note });
  } catch (error) {
    // The schedule did not cause this failure, so it stays due.
    if (!(error instanceof WavesmithError) || error.retryable || error.code === "capacity") throw error;
    const [claimed] = await schedules.update(mine, { nextAt, lastRunAt: now });
    if (claimed !== undefined) await countFailure(ports, claimed, `no build was started: ${messageOf(error)}`);
  }
}

async function unfinishedBuild({ store }: Pick<Ports, "store">, { lastBuildId }: ScheduleRow): Promise<string | null> {
  const build = lastBuildId === null ? null : await store.builds.find({ id: lastBuildId });
  return build === null || endedBuildStatuses.includes(build.status) ? null : build.id;
}

function missed({ nextAt, ...row }: ScheduleRow, now: Date): string | null {
  if (now.getTime() - nextAt.getTime() < punctualMs) return null;
  const times = 1 + countCronTimes(row, nextAt, now, countedAtMost);
  const runs = times === 1 ? "one run was missed" : `${times} runs were missed`;
  return `due at ${momentOf(nextAt)}, while nothing served it: ${runs}, and one was started`;
}

const momentOf = (at: Date): string => `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;

async function request(ports: Ports, row: ScheduleRow, defaultDriver: string) {
  const project = await ports.store.projects.get({ id: row.projectId });
  const tenant = await ports.store.tenants.get({ id: project.tenantId });
  const id = `project/build.requested:${row.id}-${row.nextAt.getTime()}:0`;
  const data = {
    ...row.request,
    ...{ project: project.name, projectId: project.id, tenant: tenant.name },
    requestedBy: `the schedule ${row.name}`,
  };
  // Requested before the process was killed, perhaps from a file that has changed since (SR1).
  const buildId = buildIdForEvent(id);
  if ((await ports.store.builds.find({ id: buildId })) !== null) return buildId;
  // The file was checked when it was stored; which secrets it may use can have changed since.
  refuseForEvents({ ...row.request }, ofTenant(ports, project.tenantId));
  return (await requestBuild(ports, { id, data }, defaultDriver)).buildId;
}
