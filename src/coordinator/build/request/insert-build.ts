import { buildIdForEvent } from "../../../domain/events/request-ids.ts";
import type { BuildId } from "../../../domain/ids.ts";
import { getKnown } from "../../../domain/known.ts";
import type { Plan } from "../../../domain/plan/plan.ts";
import type { StoreTransaction } from "../../../store/port.ts";
import type { Ports } from "../../port.ts";
import type { BuildRequest } from "./build-request.ts";
import { projectIdFor, tenantIdFor } from "./project.ts";

/** Inserts a build and its tasks, queued. An event that has a build already inserts nothing. */
export async function insertBuild(
  transaction: StoreTransaction,
  ports: Pick<Ports, "ids" | "clock">,
  request: BuildRequest,
): Promise<BuildId> {
  const buildId = buildIdForEvent(request.eventId);
  const tenantId = tenantIdFor(request.tenant);
  const projectId = projectIdFor(request.tenant, request.project);
  await transaction.tenants.insertIfAbsent({ id: tenantId, name: request.tenant });
  await transaction.projects.insertIfAbsent({ id: projectId, tenantId, name: request.project });
  const inserted = await transaction.builds.insertIfAbsent({
    id: buildId,
    tenantId,
    projectId,
    eventId: request.eventId,
    requestedBy: request.requestedBy,
    metadata: request.metadata,
    interactive: request.interactive,
    status: "queued",
    plan: request.plan,
    brief: request.brief,
    sandboxDriver: request.sandboxDriver,
    network: request.network,
    createdAt: ports.clock.now(),
  });
  if (inserted !== null) await storeTasks(transaction, ports, buildId, request.plan);
  return buildId;
}

async function storeTasks(
  transaction: StoreTransaction,
  ports: Pick<Ports, "ids">,
  buildId: string,
  plan: Plan,
): Promise<void> {
  const ids = new Map(plan.tasks.map((task) => [task.key, ports.ids("task")]));
  await transaction.tasks.insertMany(
    plan.tasks.map((task) => ({
      id: getKnown(ids, task.key),
      buildId,
      key: task.key,
      position: task.position,
      agent: task.agent,
      definition: task,
      status: "pending" as const,
    })),
  );
  await transaction.dependencies.insertMany(
    plan.tasks.flatMap((task) =>
      task.dependsOn.map((key) => ({ taskId: getKnown(ids, task.key), dependsOnId: getKnown(ids, key) })),
    ),
  );
}
