// The model proxy. Agents call it with a token that expires with their attempt, so that our
// credentials never reach them.
//
// MP3. None of the agent's headers are forwarded except those that select the provider's version.
// MP4. A provider's error may repeat our credentials, so we mask them before the agent sees it.
//
// MP1 is in metered-call.ts, MP2 and MP7 in relay.ts, MP5 and MP6 in requests/check-request.ts.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../domain/errors.ts";
import { parseModel } from "../domain/models.ts";
import { findApi, forwardedQuery, hidesUsage, providerAt } from "./apis.ts";
import { createHangUp, type HangUp } from "./call/hang-up.ts";
import { measureRequest } from "./call/measure.ts";
import { type CallParts, passMetered, passOn } from "./call/metered-call.ts";
import { headerOf, type ProviderCall } from "./call/provider-call.ts";
import type { ModelOwner, ModelProvider, Settlement } from "./port.ts";
import { Refusal, refuse } from "./refusal.ts";
import { type CheckedRequest, refusedPart } from "./requests/check-request.ts";
import { readToken } from "./token.ts";

export interface ProxyParts extends CallParts {
  readonly secret: string;
  readonly providers: readonly ModelProvider[];
  /** How long to keep listening for usage after an agent hung up; null: the usual time. */
  readonly drainMs: number | null;
  /** The warnings already shown. */
  readonly shownWarnings: Set<string>;
}

const maxBodyBytes = 32 * 1024 * 1024;
/** The most we buffer of a request before its token is checked. */
const unknownBodyBytes = 1024 * 1024;
/** A stream keeps costing while it is drained; a whole answer is paid for either way. */
const usualDrainMs = { stream: 10_000, whole: 60_000 } as const;

export interface ProxyServer {
  readonly server: Server;
  /** Aborts every open call; resolves when all are settled. */
  counted(): Promise<void>;
  /** Aborts the calls that agents left; resolves when they are settled. */
  countLeft(): Promise<void>;
}

/**
 * The path at which an agent host asks how many of its calls wait for a busy provider or for room
 * in the budget, because such a wait is not a stall.
 */
const waitingPath = "/wavesmith/waiting";
/** The path where an agent host asks whether its agent's last call finished. */
const unfinishedPath = "/wavesmith/unfinished";
/** The path where the built-in agent asks for the limits of `?model=provider:model`. */
const limitsPath = "/wavesmith/limits";

/** Creates the server for agents' model calls, to listen on a socket that sandboxes see. */
export function createProxyServer(parts: ProxyParts): ProxyServer {
  const underWay = new Map<HangUp, Promise<void>>();
  const server = createServer((request, response) => {
    const hangUp = createHangUp(response);
    const answered = answer(parts, { incoming: request, response, hangUp })
      .catch((error: unknown) => {
        const provider = providerAt(request.url ?? "");
        if (error instanceof Refusal) return refuse(response, error, provider);
        if (hangUp.gone.aborted) return; // no one is left to answer
        parts.warn(`a call to ${provider ?? "a model"} failed: ${messageOf(error)}`);
        refuse(response, new Refusal(502, `the call failed: ${messageOf(error)}`), provider);
      })
      .finally(() => {
        hangUp.close();
        underWay.delete(hangUp);
      });
    underWay.set(hangUp, answered);
  });
  server.requestTimeout = 0;
  server.headersTimeout = 30_000;
  return {
    server,
    async counted() {
      for (const hangUp of underWay.keys()) hangUp.end();
      await Promise.all(underWay.values());
    },
    async countLeft() {
      const left = [...underWay].filter(([{ gone }]) => gone.aborted);
      for (const [hangUp] of left) hangUp.end();
      await Promise.all(left.map(([, answered]) => answered));
    },
  };
}

interface Incoming {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly hangUp: HangUp;
}

async function answer(parts: ProxyParts, { incoming, response, hangUp }: Incoming): Promise<void> {
  const [path = "", query] = (incoming.url ?? "").split("?");
  if (path === waitingPath) return sayWaiting(parts, incoming, response);
  if (path === limitsPath) return sayLimits(parts, incoming, response);
  if (path === unfinishedPath) return sayUnfinished(parts, await ownerOf(parts, incoming), response);
  const foundApi = findApi(incoming.method ?? "", path);
  if (foundApi === null) throw new Refusal(404, `${incoming.method} ${path} is not a model call`);
  const { api } = foundApi;
  // Query the database while the request arrives. An invalid token gets no further details.
  const ownerPromise = ownerOf(parts, incoming);
  const reading = api.method === "GET" ? null : readBody(incoming, ownerPromise);
  reading?.catch(() => undefined); // It is waited for below.
  const owner = await ownerPromise;
  const provider = parts.providers.find(({ name }) => name === foundApi.provider);
  if (provider === undefined) throw new Refusal(401, `Wavesmith has no key for ${foundApi.provider}`);
  const body = await reading;
  const model = foundApi.model ?? body?.model;
  if (body !== null) refuseOutside(parts, { owner, api, body, model, incoming });
  const size = api.outputLimit === null || body === null ? null : measureRequest(body);
  const call: ProviderCall = {
    ...{ api, owner, provider, incoming, response, gone: hangUp.gone, cut: hangUp.cut },
    path: `${foundApi.path}${forwardedQuery(api, query)}`,
    hidesUsage: body !== null && hidesUsage(api, body),
    likelyInputTokens: size?.likelyTokens ?? 0,
    ...{ wasSent: false, readEnding: null, heardEnding: null },
  };
  let settlement: Settlement;
  if (size === null || body === null) settlement = await passOn(parts, call, body);
  else {
    if (typeof model !== "string") throw new Refusal(400, "the request names no model");
    const isStream = body.stream === true || path.endsWith(":streamGenerateContent");
    hangUp.drainFor(parts.drainMs ?? (isStream ? usualDrainMs.stream : usualDrainMs.whole));
    settlement = await passMetered(parts, call, { body, model, size });
  }
  // End the answer only after settling, so that the agent's next call sees the new balance.
  if (settlement.status === "cut") response.destroy();
  else response.end();
}

/** How long an answer that has ended may take to be counted. */
const settleMs = 3_000;

/** Tells an agent host why its agent's last call did not finish. */
async function sayUnfinished({ ledger }: ProxyParts, { id }: ModelOwner, response: ServerResponse): Promise<void> {
  const deadline = performance.now() + settleMs;
  let unfinished = await ledger.unfinished(id);
  while (unfinished?.ending === "open" && performance.now() < deadline) {
    await sleep(100);
    unfinished = await ledger.unfinished(id);
  }
  if (unfinished?.ending === "open") await ledger.overlookOpen(id);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ unfinished: unfinished?.ending === "open" ? null : unfinished }));
}

async function sayLimits(parts: ProxyParts, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  await ownerOf(parts, incoming);
  const name = new URL(incoming.url ?? "", "http://proxy").searchParams.get("model") ?? "";
  const { provider, model } = parseModel(name);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(await parts.findLimits(provider ?? "", model)));
}

async function sayWaiting(parts: ProxyParts, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id } = await ownerOf(parts, incoming);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ waiting: parts.backoff.waiting(id) + parts.ledger.waiting(id) }));
}

/**
 * MP5, MP6: refuses requests that the plan's network or budget could not bound, and warns the
 * person once.
 */
function refuseOutside(
  { warn, shownWarnings }: ProxyParts,
  { owner, incoming, ...request }: Omit<CheckedRequest, "beta"> & { owner: ModelOwner; incoming: IncomingMessage },
): void {
  const reason = refusedPart({ ...request, beta: headerOf(incoming, "anthropic-beta") }, owner.tools);
  if (reason === null) return;
  const line = `a call of ${owner.name} was refused: ${reason}`;
  if (!shownWarnings.has(`${owner.id} ${line}`)) warn(line);
  shownWarnings.add(`${owner.id} ${line}`);
  throw new Refusal(400, reason);
}

async function ownerOf({ ledger, secret }: ProxyParts, { headers }: IncomingMessage): Promise<ModelOwner> {
  const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
  const key = headers["x-api-key"] ?? headers["x-goog-api-key"];
  const claims = readToken(secret, bearer ?? (typeof key === "string" ? key : ""));
  const owner = claims === null ? null : await ledger.findOwner(claims.kind, claims.id, claims.fence);
  if (owner !== null) return owner;
  throw new Refusal(401, "this token belongs to no running attempt");
}

/** Reads a request's body. Until its owner is known, it reads only the beginning. */
async function readBody(incoming: IncomingMessage, owner: Promise<ModelOwner>): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    // Keep the connection open, because the refusal goes out on it.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > unknownBodyBytes) await owner;
      if (sizeBytes > maxBodyBytes) throw new Refusal(413, "the request is larger than 32 MiB");
      chunks.push(chunk);
    }
  } catch (error) {
    incoming.resume(); // drop the rest, because an unread connection would never end
    throw error;
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  } catch {
    // Reported below, like any other body that is not an object.
  }
  throw new Refusal(400, "the request is not a JSON object");
}
