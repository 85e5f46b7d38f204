import { isDeepStrictEqual } from "node:util";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { derivedId, type ProjectId } from "../../domain/ids.ts";
import { present } from "../../domain/known.ts";
import { standingFileName } from "../../domain/schedule.ts";
import { nextCronTime } from "../../plan/standing/cron-times.ts";
import type { ScheduleRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { findStanding, ofTenant, type Standing } from "./standing-request.ts";

type Origin = ScheduleRow["origin"];

/**
 * Replaces a project's schedules of one origin with those in a file; null removes them. An
 * unchanged schedule keeps its next time and stays paused if it was. Returns the schedules.
 */
export async function storeSchedules(
  { store, clock }: Pick<Ports, "store" | "clock">,
  { projectId, origin }: { readonly projectId: ProjectId; readonly origin: Origin },
  standing: Standing | null,
): Promise<ScheduleRow[]> {
  const now = clock.now();
  const before = await store.schedules.list({ projectId, origin });
  const request = JSON.parse(JSON.stringify(standing?.request ?? {})) as ScheduleRow["request"];
  const wanted = standing?.file.schedules ?? [];
  for (const { name, cron, timezone } of wanted) {
    const id = derivedId("schedule", projectId, origin, name);
    const nextAt = present(nextCronTime({ cron, timezone }, now), "the next time of a checked cron");
    const own = { name, origin, cron, timezone, request };
    const inserted = await store.schedules.insertIfAbsent({ id, projectId, ...own, nextAt });
    const old = before.find((row) => row.id === id);
    if (inserted !== null || old === undefined) continue;
    const isSame = old.cron === cron && old.timezone === timezone && isDeepStrictEqual(old.request, request);
    // A changed schedule may have been fixed, so it becomes active again.
    if (!isSame) await store.schedules.update({ id }, { ...own, nextAt, status: "active", failures: 0, note: null });
  }
  const gone = before.filter((row) => !wanted.some(({ name }) => name === row.name)).map(({ id }) => id);
  if (gone.length > 0) await store.schedules.remove({ id: gone });
  return store.schedules.list({ projectId, origin }, { by: "name" });
}

/** How many of the latest builds we look at to find the `main` of projects. */
const latestBuilds = 500;

/**
 * Reads `wavesmith.yaml` of every project whose main has moved since the last call, which `seen`
 * records, and stores its schedules. If a file has faults, reports them and keeps the old
 * schedules.
 */
export async function storeSchedulesOfMains(ports: Ports, seen: Map<ProjectId, string>): Promise<void> {
  const order = { by: "position", descending: true, limit: latestBuilds } as const;
  const mains = new Map<ProjectId, { readonly sha: string; readonly tenantId: string }>();
  const builds = await ports.store.builds.pick({ status: "completed" }, ["projectId", "headSha", "tenantId"], order);
  for (const { projectId, headSha: sha, tenantId } of builds)
    if (sha !== null && !mains.has(projectId)) mains.set(projectId, { sha, tenantId });
  for (const [projectId, { sha, tenantId }] of mains) {
    if (seen.get(projectId) === sha) continue;
    seen.set(projectId, sha);
    try {
      const standing = await findStanding(ofTenant(ports, tenantId), projectId, sha);
      await storeSchedules(ports, { projectId, origin: "main" }, standing);
    } catch (error) {
      // Only a fault of the file stays until the file changes.
      if (!(error instanceof WavesmithError) || error.retryable) seen.delete(projectId);
      const { name } = await ports.store.projects.get({ id: projectId });
      ports.log.warn(`${standingFileName} of ${name} at ${sha.slice(0, 12)} was not read: ${messageOf(error)}`);
    }
  }
}
