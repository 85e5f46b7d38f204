// The model proxy. Agents call it with a token that expires with their attempt; our credentials
// stay here.
//
// P3. None of the agent's headers are forwarded except those that select the provider's version.
// P4. A provider's error may repeat our credentials, so we mask them before the agent sees it.
//
// P1 is in metered-call.ts, P2 and P7 in relay.ts, P5 and P6 in requests/check-request.ts.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { messageOf } from "../domain/errors.ts";
import { findApi, hidesUsage, passedQuery, providerAt } from "./apis.ts";
import { createHangUp, type HangUp } from "./hang-up.ts";
import { measureRequest } from "./measure.ts";
import { type CallParts, passMetered, passOn } from "./metered-call.ts";
import type { ModelOwner, ModelProvider, Settlement } from "./port.ts";
import { type Call, headerOf } from "./provider-call.ts";
import { Refusal, refuse } from "./refusal.ts";
import { type CheckedRequest, refusedPart } from "./requests/check-request.ts";
import { readToken } from "./token.ts";

export interface ProxyParts extends CallParts {
  readonly secret: string;
  readonly providers: readonly ModelProvider[];
  /** How long to keep listening for usage after an agent hung up; null: the usual time. */
  readonly drainMs: number | null;
  /** The warnings already shown. */
  readonly told: Set<string>;
}

const longestBodyBytes = 32 * 1024 * 1024;
/** The most we buffer of a request before its token is checked. */
const unknownBodyBytes = 1024 * 1024;
/** A stream keeps costing while it is drained; a whole answer is paid for either way. */
const usualDrainMs = { stream: 10_000, whole: 60_000 } as const;

export interface ProxyServer {
  readonly server: Server;
  /** Aborts every open call; resolves when all are settled. */
  counted(): Promise<void>;
}

/**
 * The path where an agent host asks how many of its calls are waiting for a busy provider or for
 * room in the budget, so that they do not count as a stall.
 */
const waitingPath = "/wavesmith/waiting";

/** Creates the server for agents' model calls, to listen on a socket that sandboxes see. */
export function createProxyServer(parts: ProxyParts): ProxyServer {
  const underWay = new Map<HangUp, Promise<void>>();
  const server = createServer((request, response) => {
    const hangUp = createHangUp(response);
    const answered = answer(parts, { incoming: request, response, hangUp })
      .catch((error: unknown) => {
        const provider = providerAt(request.url ?? "");
        if (error instanceof Refusal) return refuse(response, error, provider);
        if (hangUp.gone.aborted) return; // Nobody is there to be told.
        parts.warn(`the model proxy failed: ${messageOf(error)}`);
        refuse(response, new Refusal(502, "the call could not be made"), provider);
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
  const found = findApi(incoming.method ?? "", path);
  if (found === null) throw new Refusal(404, `${incoming.method} ${path} is not a model call`);
  const { api } = found;
  // Query the database while the request arrives. An invalid token gets no further details.
  const asked = ownerOf(parts, incoming);
  const reading = api.method === "GET" ? null : readBody(incoming, asked);
  reading?.catch(() => undefined); // It is waited for below.
  const owner = await asked;
  const provider = parts.providers.find(({ name }) => name === api.provider);
  if (provider === undefined) throw new Refusal(401, `there is no key for ${api.provider} where Wavesmith runs`);
  const body = await reading;
  const model = found.model ?? body?.model;
  if (body !== null) refuseOutside(parts, { owner, api, body, model, incoming });
  const size = api.outputLimit === null || body === null ? null : measureRequest(body);
  const call: Call = {
    ...{ api, owner, provider, incoming, response, gone: hangUp.gone, cut: hangUp.cut },
    path: `${found.path}${passedQuery(api, query)}`,
    hidesUsage: body !== null && hidesUsage(api, body),
    likelyInputTokens: size?.likelyTokens ?? 0,
    wasSent: false,
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

async function sayWaiting(parts: ProxyParts, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id } = await ownerOf(parts, incoming);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ waiting: parts.backoff.waiting(id) + parts.ledger.waiting(id) }));
}

/**
 * P5, P6: refuses requests that the plan's network or budget could not bound, and warns the person
 * once.
 */
function refuseOutside(
  { warn, told }: ProxyParts,
  { owner, incoming, ...request }: Omit<CheckedRequest, "beta"> & { owner: ModelOwner; incoming: IncomingMessage },
): void {
  const reason = refusedPart({ ...request, beta: headerOf(incoming, "anthropic-beta") }, owner.tools);
  if (reason === null) return;
  const line = `a call of ${owner.name} was refused: ${reason}`;
  if (!told.has(`${owner.id} ${line}`)) warn(line);
  told.add(`${owner.id} ${line}`);
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

/**
 * Reads a request. Until its owner is known, reads only the beginning, and stops there if there is
 * none.
 */
async function readBody(incoming: IncomingMessage, owner: Promise<ModelOwner>): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    // Keep the connection open, because the refusal goes out on it.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > unknownBodyBytes) await owner;
      if (sizeBytes > longestBodyBytes) throw new Refusal(413, "the request is above 32 MiB");
      chunks.push(chunk);
    }
  } catch (error) {
    incoming.resume(); // What still comes is let go: a connection that is not read would never end.
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
