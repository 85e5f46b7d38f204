import { createHash, randomUUID } from "node:crypto";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { EngineEvent } from "../port.ts";
import { type Checkpoint, checkpointSchema, type SentEvent, sentEventsSchema } from "./protocol.ts";

/** The requests of the SDK's client that the engine handles. */
export interface ApiHandlers {
  send(events: readonly EngineEvent[]): Promise<void>;
  /** False when the call that sends it has been superseded. */
  checkpoint(runId: string, checkpoint: Checkpoint): Promise<boolean>;
}

interface ApiRequest {
  readonly header: (name: string) => string | null;
  readonly json: () => Promise<unknown>;
}

/** The `fetch` of the Inngest client: no request leaves the process. */
export function createEngineFetch(handlers: ApiHandlers): typeof globalThis.fetch {
  return async (input, init) => {
    const { pathname } = input instanceof URL ? input : new URL(input instanceof Request ? input.url : input);
    const method = init?.method ?? (input instanceof Request ? input.method : "GET");
    const request = requestOf(input, init);
    if (method === "POST" && /^\/e\/[^/]+$/.test(pathname)) return await receiveEvents(handlers, request);
    const runId = /^\/v1\/checkpoint\/([^/]+)\/async$/.exec(pathname)?.[1];
    if (method === "POST" && runId !== undefined)
      return await receiveCheckpoint(handlers, decodeURIComponent(runId), request);
    throw new WavesmithError("unsupported", `the embedded engine does not answer ${method} ${pathname}`, {
      remedy: "the feature behind it needs an Inngest server (--engine inngest)",
    });
  };
}

/**
 * Reads the SDK's request. The SDK passes a URL and a string; building a `Request` from them would
 * cost as much as storing a step.
 */
function requestOf(input: string | URL | Request, init: RequestInit | undefined): ApiRequest {
  const body = init?.body;
  if (typeof body === "string" && !(input instanceof Request))
    return { header: (name) => new Headers(init?.headers ?? {}).get(name), json: async () => JSON.parse(body) };
  const request = new Request(input, init);
  return { header: (name) => request.headers.get(name), json: () => request.json() };
}

async function receiveEvents(handlers: ApiHandlers, request: ApiRequest): Promise<Response> {
  const parsed = sentEventsSchema.safeParse(await request.json());
  if (!parsed.success) return Response.json({ error: parsed.error.message, status: 400 }, { status: 400 });
  const idOf = eventIds(request.header("x-inngest-event-id-seed"));
  const events = parsed.data.map((sent, place) => eventOf(sent, idOf(place)));
  try {
    await handlers.send(events);
  } catch (error) {
    const status = error instanceof WavesmithError && error.retryable ? 503 : 400;
    return Response.json({ error: messageOf(error), status }, { status });
  }
  return Response.json({ ids: events.map((event) => event.id), status: 200 });
}

/** Makes ids for events without one. When the SDK resends a request, the ids are the same. */
function eventIds(seed: string | null): (place: number) => string {
  const base = seed ?? randomUUID();
  return (place) => `evt_${createHash("sha256").update(`${base}\n${place}`).digest("hex").slice(0, 32)}`;
}

function eventOf(sent: SentEvent, generatedId: string): EngineEvent {
  return {
    name: sent.name,
    id: sent.id ?? generatedId,
    data: sent.data ?? {},
    ...(typeof sent.ts === "number" ? { ts: sent.ts } : {}),
    ...(typeof sent.v === "string" ? { v: sent.v } : {}),
  };
}

async function receiveCheckpoint(handlers: ApiHandlers, runId: string, request: ApiRequest): Promise<Response> {
  const parsed = checkpointSchema.safeParse(await request.json());
  if (!parsed.success) return Response.json({ error: parsed.error.message }, { status: 400 });
  const unsupportedOp = parsed.data.steps.find((op) => op.op !== "StepRun");
  // After a refusal the SDK returns the same ops as the answer to its call, and the run then fails
  // with an error that names the op.
  if (unsupportedOp !== undefined)
    return Response.json({ error: `a checkpoint of the op ${unsupportedOp.op}` }, { status: 400 });
  const current = await handlers.checkpoint(runId, parsed.data);
  return new Response(null, { status: current ? 200 : 409 });
}
