import type { Brief } from "../../domain/brief.ts";
import { type BuildId, buildIdForEvent } from "../../domain/ids.ts";
import type { NetworkMode } from "../../domain/network.ts";
import type { Plan } from "../../domain/plan.ts";
import type { StoreTransaction } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { projectIdFor, tenantIdFor } from "./project.ts";

export interface BuildRequest {
  readonly eventId: string;
  readonly tenant: string;
  readonly project: string;
  readonly requestedBy: string | null;
  /** Whether a person is there to be asked. */
  readonly interactive: boolean;
  /** Of a brief the plan by which a plan is made. */
  readonly plan: Plan;
  readonly brief: Brief | null;
  readonly sandboxDriver: string;
  /** Which hosts an allowlist holds, the plan says. */
  readonly network: NetworkMode;
}

/**
 * Stores a build and its tasks, queued behind other builds of its project. A request seen before
 * stores nothing.
 */
export async function storeBuild(ports: Ports, request: BuildRequest): Promise<BuildId> {
  const buildId = buildIdForEvent(request.eventId);
  const tenantId = tenantIdFor(request.tenant);
  const projectId = projectIdFor(request.tenant, request.project);
  await ports.store.transaction("store-build", async (transaction) => {
    await transaction.tenants.insertIfAbsent({ id: tenantId, name: request.tenant });
    await transaction.projects.insertIfAbsent({ id: projectId, tenantId, name: request.project });
    const inserted = await transaction.builds.insertIfAbsent({
      id: buildId,
      tenantId,
      projectId,
      eventId: request.eventId,
      requestedBy: request.requestedBy,
      interactive: request.interactive,
      status: "queued",
      plan: request.plan,
      brief: request.brief,
      sandboxDriver: request.sandboxDriver,
      network: request.network,
      createdAt: ports.clock.now(),
    });
    if (inserted !== null) await storeTasks(transaction, ports, buildId, request.plan);
  });
  return buildId;
}

async function storeTasks(transaction: StoreTransaction, ports: Ports, buildId: string, plan: Plan): Promise<void> {
  const ids = new Map(plan.tasks.map((task) => [task.key, ports.ids("task")]));
  await transaction.tasks.insertMany(
    plan.tasks.map((task) => ({
      id: ids.get(task.key)!,
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
      task.dependsOn.map((key) => ({ taskId: ids.get(task.key)!, dependsOnId: ids.get(key)! })),
    ),
  );
}
