import { randomUUID } from "node:crypto";
import { z } from "zod";
import { defaultTenant, projectIdFor } from "../coordinator/build/project.ts";
import { readBuildRequest, refuseForEvents, refuseUnknownKeys } from "../coordinator/build/request-build.ts";
import type { Ports } from "../coordinator/port.ts";
import { nameFromBrief } from "../domain/brief.ts";
import { WavesmithError } from "../domain/errors.ts";
import { schemaForEvent } from "../domain/events.ts";
import type { SentEvent } from "./port.ts";

/** The events that people and other systems may send; all others are internal. */
const fromOutside = [
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
const ownIds = /^(again:|(agent|project|sandbox|snapshot|ci)\/(?!build\.requested:))/;

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
  readonly ports: Pick<Ports, "store" | "environment" | "models" | "briefAgent" | "eventSecrets">;
}

/** Parses the body of `POST /e/:key`: all of its events, or the first fault. */
export async function readIncoming(body: unknown, options: IncomingOptions): Promise<SentEvent[]> {
  const parsed = listSchema.safeParse(Array.isArray(body) ? body : [body]);
  if (!parsed.success) throw new WavesmithError("usage", `not an event or a list of events: ${told(parsed.error)}`);
  const events: SentEvent[] = [];
  for (const event of parsed.data) events.push(await complete(event, options));
  return events;
}

/** Adds what the sender need not know: the event's id, project and tenant. */
async function complete(event: Incoming, options: IncomingOptions): Promise<SentEvent> {
  const name = fromOutside.find((known) => known === event.name);
  if (name === undefined) throw refusedName(event.name);
  const given = event.data ?? {};
  const place = unstorableAt(given, "data");
  if (place !== null) throw new WavesmithError("usage", `${place} of ${name} contains a NUL or half a character`);
  const data = name === "project/build.requested" ? requestData(given, options) : await buildData(name, given, options);
  const checked = schemaForEvent(name)!.safeParse(data);
  if (!checked.success) throw new WavesmithError("usage", `the data of ${name} is wrong: ${told(checked.error)}`);
  const id = event.id ?? `${name}:${randomUUID()}:0`;
  // The function would find the same faults, but could not report them to the sender.
  if (name === "project/build.requested") readBuildRequest(options.ports, { id, data }, "local");
  return { name, id, data };
}

function refusedName(name: string): WavesmithError {
  const known = schemaForEvent(name) === undefined ? "there is no such event" : "only Wavesmith sends it";
  return new WavesmithError("unsupported", `the event ${name} is refused: ${known}`, {
    remedy: `send one of ${fromOutside.join(", ")}`,
  });
}

/** Returns where a text is that Postgres cannot store; null if there is none. */
function unstorableAt(value: unknown, path: string): string | null {
  if (typeof value === "string") return value.includes("\0") || loneSurrogate.test(value) ? path : null;
  if (typeof value !== "object" || value === null) return null;
  for (const [key, inner] of Object.entries(value)) {
    const found = unstorableAt(key, `a key in ${path}`) ?? unstorableAt(inner, `${path}.${key}`);
    if (found !== null) return found;
  }
  return null;
}

const loneSurrogate = /\p{Cs}/u;

function requestData(given: Record<string, unknown>, { ports }: IncomingOptions): Record<string, unknown> {
  refuseForEvents(given, ports);
  if ([given.plan, given.planUrl, given.brief].every((what) => what === undefined)) {
    throw new WavesmithError("usage", "project/build.requested has neither a plan nor a brief", {
      remedy: 'send {"data":{"plan":{"name":"…","tasks":[…]}}}',
    });
  }
  const { name } = (given.plan ?? {}) as { name?: unknown };
  const project = given.project ?? (typeof given.brief === "string" ? nameFromBrief(given.brief) : name);
  // A plan without a name is faulty; the build's own check reports that with its other faults.
  return typeof project === "string" ? { ...given, projectId: projectIdFor(defaultTenant, project) } : given;
}

async function buildData(
  name: Exclude<OutsideName, "project/build.requested">,
  given: Record<string, unknown>,
  { ports }: IncomingOptions,
): Promise<Record<string, unknown>> {
  refuseUnknownKeys(name, given);
  const { buildId, waveNumber } = given;
  if (typeof buildId !== "string") throw new WavesmithError("usage", `${name} names no buildId`);
  const build = await ports.store.builds.find({ id: buildId });
  if (build === null) throw new WavesmithError("not-found", `there is no build ${buildId}`);
  if (typeof waveNumber === "number" && (await ports.store.waves.find({ buildId, number: waveNumber })) === null)
    throw new WavesmithError("not-found", `build ${buildId} has no wave ${waveNumber}`);
  return { ...given, tenantId: build.tenantId, projectId: build.projectId, buildId };
}

const told = (error: z.ZodError): string =>
  error.issues.map((issue) => `${issue.path.join(".") || "it"}: ${issue.message}`).join("; ");
