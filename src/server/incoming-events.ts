import { randomUUID } from "node:crypto";
import { z } from "zod";
import { readBuildRequest, refuseForEvents, refuseUnknownKeys } from "../coordinator/build/request/build-request.ts";
import { defaultTenant, projectIdFor } from "../coordinator/build/request/project.ts";
import type { Ports } from "../coordinator/port.ts";
import { checkInput } from "../domain/check-input.ts";
import { WavesmithError } from "../domain/errors.ts";
import { type DomainEvent, type EventData, makeEvent, schemaForEvent } from "../domain/events/events.ts";
import { nameFromBrief } from "../domain/plan/brief.ts";

/** The events that people and other systems may send; all others are internal. */
export const fromOutside = [
  "project/build.requested",
  "project/build.cancel-requested",
  "project/wave.approved",
  "project/wave.rejected",
] as const;
type OutsideName = (typeof fromOutside)[number];

/**
 * Prefixes of our own event ids: an outside event with such an id would have ours dropped as a
 * duplicate.
 */
const ownIds = /^(again:|(agent|project|sandbox|snapshot|ci|forge)\/(?!build\.requested:))/;

/** One event as Inngest accepts it. */
const eventSchema = z.object({
  name: z.string().min(1),
  id: z
    .string()
    .min(1)
    .max(200)
    .regex(/^\P{Cc}*$/u, "contains control characters")
    .refine((id) => !ownIds.test(id), "begins like Wavesmith's own ids")
    .nullish(),
  data: z.record(z.string(), z.unknown()).nullish(),
});
const listSchema = z.array(eventSchema).min(1).max(100);
type Incoming = z.infer<typeof eventSchema>;

export interface IncomingOptions {
  readonly ports: Pick<Ports, "store" | "environment" | "models" | "briefAgents" | "eventSecrets">;
}

const remedy = "docs/events.md shows what each event takes";

/** Parses the body of `POST /e/:key`: all of its events, or the first fault. */
export async function readIncoming(body: unknown, options: IncomingOptions): Promise<DomainEvent<OutsideName>[]> {
  const sent = Array.isArray(body)
    ? checkInput(listSchema, body, { where: "the list of events", remedy })
    : [checkInput(eventSchema, body, { where: "the event", remedy })];
  const events: DomainEvent<OutsideName>[] = [];
  for (const event of sent) events.push(await complete(event, options));
  return events;
}

/** Adds the fields that a sender may leave out: the event's id, project and tenant. */
async function complete(event: Incoming, options: IncomingOptions): Promise<DomainEvent<OutsideName>> {
  const name = fromOutside.find((known) => known === event.name);
  if (name === undefined) throw refusedName(event.name);
  const sentData = event.data ?? {};
  const data =
    name === "project/build.requested" ? requestData(sentData, options) : await buildData(name, sentData, options);
  checkInput(schemaForEvent(name)!, data, { where: `the data of ${name}`, remedy });
  const made = makeEvent(name, randomUUID(), 0, data as EventData<OutsideName>);
  const id = event.id ?? made.id;
  // The function would find the same faults, but could not report them to the sender.
  if (name === "project/build.requested") readBuildRequest(options.ports, { id, data }, "local");
  return { ...made, id };
}

function refusedName(name: string): WavesmithError {
  const reason = schemaForEvent(name) === undefined ? "there is no such event" : "only Wavesmith sends it";
  return new WavesmithError("unsupported", `the event ${name} is refused: ${reason}`, {
    remedy: `send one of ${fromOutside.join(", ")}`,
  });
}

function requestData(data: Record<string, unknown>, { ports }: IncomingOptions): Record<string, unknown> {
  refuseForEvents(data, ports);
  if ([data.plan, data.planUrl, data.brief].every((value) => value === undefined)) {
    throw new WavesmithError("usage", "project/build.requested has neither a plan nor a brief", {
      remedy: 'send {"data":{"plan":{"name":"…","tasks":[…]}}}',
    });
  }
  const { tenantId: _, ...rest } = data; // whoever holds the server's key asks for the default tenant
  const { name } = (data.plan ?? {}) as { name?: unknown };
  const project = data.project ?? (typeof data.brief === "string" ? nameFromBrief(data.brief) : name);
  // A plan without a name is faulty; the build's own check reports that with its other faults.
  return typeof project === "string" ? { ...rest, projectId: projectIdFor(defaultTenant, project) } : rest;
}

async function buildData(
  name: Exclude<OutsideName, "project/build.requested">,
  data: Record<string, unknown>,
  { ports }: IncomingOptions,
): Promise<Record<string, unknown>> {
  refuseUnknownKeys(name, data);
  const { buildId, waveNumber } = data;
  if (typeof buildId !== "string") throw new WavesmithError("usage", `${name} names no buildId`);
  const build = await ports.store.builds.find({ id: buildId });
  if (build === null) throw new WavesmithError("not-found", `there is no build ${buildId}`);
  if (typeof waveNumber === "number" && (await ports.store.waves.find({ buildId, number: waveNumber })) === null)
    throw new WavesmithError("not-found", `build ${buildId} has no wave ${waveNumber}`);
  const { tenantId, projectId, metadata } = build;
  return { ...data, ...(metadata === null ? {} : { metadata }), tenantId, projectId, buildId };
}
