import { isDeepStrictEqual } from "node:util";
import { limitsFor, spentUpText } from "../../../domain/access.ts";
import { WavesmithError } from "../../../domain/errors.ts";
import { eventSchemas } from "../../../domain/events/events.ts";
import { buildIdForEvent } from "../../../domain/events/request-ids.ts";
import type { BuildId } from "../../../domain/ids.ts";
import type { StoreTransaction } from "../../../store/port.ts";
import type { Ports } from "../../port.ts";
import { type RequestEvent, readBuildRequest } from "./build-request.ts";
import { insertBuild } from "./insert-build.ts";
import { projectIdFor, tenantIdFor } from "./project.ts";

const name = "project/build.requested";

export interface RequestedBuild {
  readonly buildId: BuildId;
  /** Whether the same request had been accepted before. */
  readonly repeated: boolean;
}

/**
 * Stores a build with the event that starts it, in one transaction: once this returns, the build
 * starts even if this process dies. Fails with `plan-invalid`, and with `conflict` if the event's
 * id was used for other data.
 */
export async function requestBuild(
  ports: Ports,
  event: RequestEvent & { readonly data: Record<string, unknown> },
  defaultDriver: string,
): Promise<RequestedBuild> {
  const request = readBuildRequest(ports, event, defaultDriver);
  const projectId = projectIdFor(request.tenant, request.project);
  const buildId = buildIdForEvent(event.id);
  const asked = eventSchemas[name].parse(JSON.parse(JSON.stringify(event.data)));
  const tenantId = tenantIdFor(request.tenant);
  const data = { ...asked, tenantId, tenant: request.tenant, projectId, buildId };
  return ports.store.transaction("request-build", async (transaction) => {
    const before = await transaction.outbox.find({ eventId: event.id });
    if (before === null) await refuseOverLimits(transaction, ports, tenantId);
    await insertBuild(transaction, ports, request);
    await transaction.emit({ name, id: event.id, data });
    // Another process may have stored the same id meanwhile, with other data.
    const stored = await transaction.outbox.get({ eventId: event.id });
    if (isDeepStrictEqual(stored.data, data)) return { buildId, repeated: before !== null };
    throw new WavesmithError("conflict", "this Idempotency-Key was used before, for another request", {
      remedy: "use a new key for each build",
    });
  });
}

const retryAfterMs = 60_000;

/**
 * Refuses a tenant's next build while it has as many unfinished ones as it may have, or has spent
 * what it may spend. Fails with `capacity`. Its row is locked, so that of two requests at once the
 * second one counts the first.
 */
async function refuseOverLimits(
  transaction: StoreTransaction,
  { tenantLimits }: Pick<Ports, "tenantLimits">,
  tenantId: string,
): Promise<void> {
  const tenant = await transaction.tenants.find({ id: tenantId });
  const limits = limitsFor(tenant?.limits ?? {}, tenantLimits);
  const { builds } = limits;
  if (builds === null && limits.usd === null) return;
  if (tenant !== null) await transaction.lockTenant(tenantId);
  const unfinished = await transaction.builds.pick({ tenantId, status: unfinishedStatuses }, ["id"]);
  if (builds !== null && unfinished.length >= builds)
    throw new WavesmithError(
      "capacity",
      `this tenant has ${unfinished.length} unfinished builds, of at most ${builds}`,
      {
        remedy: "wait for one to end, or cancel one; `wavesmith tenants limit` sets the limit",
        retryAfterMs,
      },
    );
  const spent = spentUpText(limits, (await transaction.tenantSpending(tenantId)).microUsd);
  if (spent !== null)
    throw new WavesmithError("capacity", spent, { remedy: "`wavesmith tenants limit` sets the limit", retryAfterMs });
}

const unfinishedStatuses = ["queued", "running", "waiting", "cancelling"] as const;
