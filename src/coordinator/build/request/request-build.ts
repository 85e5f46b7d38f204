import { isDeepStrictEqual } from "node:util";
import { WavesmithError } from "../../../domain/errors.ts";
import { buildIdForEvent } from "../../../domain/events/event-ids.ts";
import { eventSchemas } from "../../../domain/events/events.ts";
import type { BuildId } from "../../../domain/ids.ts";
import type { Ports } from "../../port.ts";
import { readBuildRequest } from "./build-request.ts";
import { insertBuild } from "./new-build.ts";
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
  event: { readonly id: string; readonly data: Record<string, unknown> },
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
