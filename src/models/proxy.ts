// The model proxy: agents call it with a token that dies with their attempt; our credentials stay here.
//
// P1. A call is made only when its worst case is reserved (W10), and settled once, however it ends.
// P2. An answer passes byte by byte; it is never held back to be read.
// P3. Of what an agent sent as headers nothing is passed on but what the provider's versioning needs.
// P4. What a provider says of an error may repeat what we signed in with: it is covered before the agent has it.
//
// P5 and P6: requests/check-request.ts.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { messageOf } from "../domain/errors.ts";
import { findApi, heldBody, inputTokensOf, outputLimitOf, passedQuery, providerAt } from "./apis.ts";
import { type Backoff, isBusy } from "./backoff.ts";
import type {
  Cassette,
  CassetteAnswer,
  CassetteCall,
  ModelLedger,
  ModelOwner,
  ModelProvider,
  Settlement,
} from "./port.ts";
import { askedWait, type Call, headerOf, send } from "./provider-call.ts";
import { Refusal, refuse } from "./refusal.ts";
import { relay, replay } from "./relay.ts";
import { type CheckedRequest, refusedPart } from "./requests/check-request.ts";
import { readToken } from "./token.ts";

export interface ProxyParts {
  readonly ledger: ModelLedger;
  readonly secret: string;
  readonly providers: readonly ModelProvider[];
  readonly backoff: Backoff;
  readonly cassette: Cassette | null;
  readonly warn: (message: string) => void;
  /** What was warned of already. */
  readonly told: Set<string>;
}

const longestBodyBytes = 32 * 1024 * 1024;
/** How much is kept of a request whose token nobody has looked at yet. */
const unknownBodyBytes = 1024 * 1024;
/** How long a call waits for a busy provider before it is told so. */
const longestPauseMs = 30 * 60_000;

export interface ProxyServer {
  readonly server: Server;
  /** Resolves when each call that was under way is counted. */
  counted(): Promise<void>;
}

/** Where an agent's host asks how many of its calls wait for a busy provider: silence is then no sign of a stall. */
const waitingPath = "/wavesmith/waiting";

/** A server that answers agents' calls of models; to be listened with on a socket that sandboxes see. */
export function createProxyServer(parts: ProxyParts): ProxyServer {
  const underWay = new Set<Promise<void>>();
  const server = createServer((request, response) => {
    const answered = answer(parts, request, response)
      .catch((error: unknown) => {
        const provider = providerAt(request.url ?? "");
        if (error instanceof Refusal) return refuse(response, error, provider);
        parts.warn(`the model proxy failed: ${messageOf(error)}`);
        refuse(response, new Refusal(502, "the call could not be made"), provider);
      })
      .finally(() => underWay.delete(answered));
    underWay.add(answered);
  });
  server.requestTimeout = 0;
  server.headersTimeout = 30_000;
  return { server, counted: async () => void (await Promise.all(underWay)) };
}

async function answer(parts: ProxyParts, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = "", query] = (incoming.url ?? "").split("?");
  if (path === waitingPath) {
    const { id } = await ownerOf(parts, incoming);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ waiting: parts.backoff.waiting(id) }));
    return;
  }
  const found = findApi(incoming.method ?? "", path);
  if (found === null) throw new Refusal(404, `${incoming.method} ${path} is no call of a model`);
  const { api, model } = found;
  const gone = new AbortController();
  response.once("close", () => gone.abort(new Error("the agent hung up")));
  // The database is asked while the request comes in. Of a wrong token nothing is said but that it is wrong.
  const asked = ownerOf(parts, incoming);
  const reading = api.method === "GET" ? null : readBody(incoming, asked);
  reading?.catch(() => undefined); // It is waited for below.
  const owner = await asked;
  const provider = parts.providers.find(({ name }) => name === api.provider);
  if (provider === undefined) throw new Refusal(401, `there is no key for ${api.provider} where Wavesmith runs`);
  const body = await reading;
  if (body !== null) refuseOutside(parts, { owner, api, body, model: model ?? body.model, incoming });
  const call: Call = {
    api,
    model,
    owner,
    provider,
    path: `${found.path}${passedQuery(api, query)}`,
    incoming,
    response,
    signal: gone.signal,
    wasSent: false,
  };
  const { status } = api.outputLimit === null ? await pass(parts, call, body) : await metered(parts, call, body ?? {});
  // Only now, when it is counted: the agent's next call must not be quicker than that.
  if (status === "cut") response.destroy();
  else response.end();
}

/** P5, P6: refuses what a plan's network and budget could not hold, and says so to the person once. */
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
  throw new Refusal(401, "this token is not that of an attempt at work");
}

/** Reads a request; of one whose owner is not known yet only the beginning, and no more of it when there is none. */
async function readBody(incoming: IncomingMessage, owner: Promise<ModelOwner>): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    // Its end must not end the connection, on which the refusal is to be said.
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
    // Said below, as for every other thing that is no object.
  }
  throw new Refusal(400, "the request is no JSON object");
}

async function metered(parts: ProxyParts, call: Call, body: Record<string, unknown>): Promise<Settlement> {
  const { api, owner, provider } = call;
  const model = call.model ?? body.model;
  if (typeof model !== "string") throw new Refusal(400, "the request names no model");
  const granted = await parts.ledger.reserve({
    owner,
    provider: provider.name,
    model,
    inputTokens: inputTokensOf(body),
    outputTokens: outputLimitOf(api, body),
  });
  if (granted.callId === null) throw new Refusal(402, granted.reason);
  const { callId, outputTokens } = granted;
  const settlement = await pass(parts, call, heldBody(api, body, outputTokens)).catch(async (error: unknown) => {
    // What the provider never had cost nothing; of what it had and did not answer nobody knows.
    const status = call.wasSent ? "cut" : "failed";
    await parts.ledger.settle(callId, { status, usage: null, httpStatus: null, error: messageOf(error) });
    throw error;
  });
  const counted = settlement.status === "cut" ? atMost(settlement, outputTokens) : settlement;
  await parts.ledger.settle(callId, counted);
  return counted;
}

/** More than was granted it cannot have taken. */
const atMost = ({ usage, ...settlement }: Settlement, outputTokens: number): Settlement => ({
  ...settlement,
  usage: usage && { ...usage, outputTokens: Math.min(usage.outputTokens, outputTokens) },
});

/** Makes the call and passes its answer on; waits with all others while the provider is busy. */
async function pass(parts: ProxyParts, call: Call, body: Record<string, unknown> | null): Promise<Settlement> {
  const { backoff, cassette } = parts;
  const { owner, provider, path } = call;
  const kept: CassetteCall = { owner: owner.name, provider: provider.name, path, body };
  const found = (await cassette?.find(kept)) ?? null;
  if (found !== null) return replay(call, found);
  const deadline = performance.now() + longestPauseMs;
  for (;;) {
    await backoff.ready(provider.name, { owner: owner.id, signal: call.signal });
    const reply = await send(call, body);
    const status = reply.statusCode ?? 502;
    if (!isBusy(status) || performance.now() > deadline) {
      if (!isBusy(status)) backoff.calm(provider.name);
      return relay(call, reply, cassette === null ? null : (answered) => keepAnswer(parts, kept, answered));
    }
    call.wasSent = false;
    const waitMs = backoff.busy(provider.name, await askedWait(reply));
    parts.warn(`${provider.name} answers ${status}: its calls wait for ${Math.ceil(waitMs / 1000)} s`);
  }
}

/** A call that was answered is counted, also when its answer cannot be written down. */
const keepAnswer = async ({ cassette, warn }: ProxyParts, call: CassetteCall, answer: CassetteAnswer) =>
  cassette?.keep(call, answer).catch((error: unknown) => warn(`the cassette is not whole: ${messageOf(error)}`));
