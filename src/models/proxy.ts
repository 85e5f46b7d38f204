// The model proxy: agents call it with a token that dies with their attempt; our credentials stay here.
//
// P1. A call is made only when its worst case is reserved (W10), and settled once, however it ends.
// P2. An answer passes byte by byte; it is never held back to be read.
// P3. Of what an agent sent as headers nothing is passed on but what the provider's versioning needs.
import {
  createServer,
  type IncomingMessage,
  request as plainRequest,
  type Server,
  type ServerResponse,
} from "node:http";
import { request as secureRequest } from "node:https";
import { messageOf } from "../domain/errors.ts";
import { type Api, findApi, heldBody, inputTokensOf, outputLimitOf } from "./apis.ts";
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
import { readToken } from "./token.ts";
import { createUsageReader } from "./usage.ts";

export interface ProxyParts {
  readonly ledger: ModelLedger;
  readonly secret: string;
  readonly providers: readonly ModelProvider[];
  readonly backoff: Backoff;
  readonly cassette: Cassette | null;
  readonly warn: (message: string) => void;
}

const longestBodyBytes = 32 * 1024 * 1024;
/** How long a provider may say nothing at all. */
const silenceMs = 10 * 60_000;
/** How long a call waits for a busy provider before it is told so. */
const longestPauseMs = 30 * 60_000;

/** A server that answers agents' calls of models; to be listened with on a socket that sandboxes see. */
export function createProxyServer(parts: ProxyParts): Server {
  const server = createServer((request, response) => {
    answer(parts, request, response).catch((error: unknown) => {
      if (error instanceof Refusal) return refuse(response, error);
      parts.warn(`the model proxy failed: ${messageOf(error)}`);
      refuse(response, new Refusal(502, "api_error", "wavesmith: the call could not be made"));
    });
  });
  server.requestTimeout = 0;
  server.headersTimeout = 30_000;
  return server;
}

/** A call that is not made, as its provider would say it. */
class Refusal extends Error {
  readonly status: number;
  readonly type: string;
  constructor(status: number, type: string, message: string) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

function refuse(response: ServerResponse, { status, type, message }: Refusal): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, { "content-type": "application/json" });
  // Anthropic's form and OpenAI's at once.
  response.end(JSON.stringify({ type: "error", error: { type, code: type, message } }));
}

interface Call {
  readonly api: Api;
  readonly owner: ModelOwner;
  readonly provider: ModelProvider;
  readonly path: string;
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly signal: AbortSignal;
}

async function answer(parts: ProxyParts, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = "", query] = (incoming.url ?? "").split("?");
  const api = findApi(incoming.method ?? "", path);
  if (api === null)
    throw new Refusal(404, "not_found_error", `wavesmith: ${incoming.method} ${path} is no call of a model`);
  const owner = await ownerOf(parts, incoming);
  const provider = parts.providers.find(({ name }) => name === api.provider);
  if (provider === undefined) {
    const message = `wavesmith: there is no key for ${api.provider} where Wavesmith runs`;
    throw new Refusal(401, "authentication_error", message);
  }
  const gone = new AbortController();
  response.once("close", () => gone.abort(new Error("the agent hung up")));
  const call: Call = {
    api,
    owner,
    provider,
    path: query === undefined ? api.path : `${api.path}?${query}`,
    incoming,
    response,
    signal: gone.signal,
  };
  const body = api.method === "GET" ? null : await readBody(incoming);
  const { status } = api.outputLimit === null ? await pass(parts, call, body) : await metered(parts, call, body ?? {});
  // Only now, when it is counted: the agent's next call must not be quicker than that.
  if (status === "cut") response.destroy();
  else response.end();
}

async function ownerOf({ ledger, secret }: ProxyParts, { headers }: IncomingMessage): Promise<ModelOwner> {
  const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
  const key = headers["x-api-key"];
  const claims = readToken(secret, bearer ?? (typeof key === "string" ? key : ""));
  const owner = claims === null ? null : await ledger.findOwner(claims.kind, claims.id, claims.fence);
  if (owner !== null) return owner;
  throw new Refusal(401, "authentication_error", "wavesmith: this token is not that of an attempt at work");
}

async function readBody(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > longestBodyBytes)
      throw new Refusal(413, "request_too_large", "wavesmith: the request is above 32 MiB");
    chunks.push(chunk);
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  } catch {
    // Said below, as for every other thing that is no object.
  }
  throw new Refusal(400, "invalid_request_error", "wavesmith: the request is no JSON object");
}

async function metered(parts: ProxyParts, call: Call, body: Record<string, unknown>): Promise<Settlement> {
  const { api, owner, provider } = call;
  if (typeof body.model !== "string")
    throw new Refusal(400, "invalid_request_error", "wavesmith: the request names no model");
  const granted = await parts.ledger.reserve({
    owner,
    provider: provider.name,
    model: body.model,
    inputTokens: inputTokensOf(body),
    outputTokens: outputLimitOf(api, body),
  });
  if (granted.callId === null) throw new Refusal(402, "billing_error", granted.reason);
  const { callId, outputTokens } = granted;
  try {
    const settlement = await pass(parts, call, heldBody(api, body, outputTokens));
    await parts.ledger.settle(callId, settlement);
    return settlement;
  } catch (error) {
    // What was never answered cost nothing.
    await parts.ledger.settle(callId, { status: "failed", usage: null, httpStatus: null, error: messageOf(error) });
    throw error;
  }
}

/** Makes the call and passes its answer on; waits with all others while the provider is busy. */
async function pass(parts: ProxyParts, call: Call, body: Record<string, unknown> | null): Promise<Settlement> {
  const { backoff, cassette } = parts;
  const { owner, provider, path } = call;
  const kept: CassetteCall = { owner: owner.name, provider: provider.name, path, body };
  const found = (await cassette?.find(kept)) ?? null;
  if (found !== null) return replay(call, found);
  const deadline = performance.now() + longestPauseMs;
  for (;;) {
    await backoff.ready(provider.name, call.signal);
    const reply = await send(call, body);
    const status = reply.statusCode ?? 502;
    if (!isBusy(status) || performance.now() > deadline) {
      if (!isBusy(status)) backoff.calm(provider.name);
      return relay(call, reply, cassette === null ? null : (answered) => cassette.keep(kept, answered));
    }
    reply.resume();
    const waitMs = backoff.busy(provider.name, headerOf(reply, "retry-after"));
    parts.warn(`${provider.name} answers ${status}: its calls wait for ${Math.ceil(waitMs / 1000)} s`);
  }
}

const headerOf = ({ headers }: IncomingMessage, name: string): string | null => {
  const value = headers[name];
  return typeof value === "string" ? value : null;
};

/** Which version of its interface an agent speaks; everything else of its headers is its own affair. */
const passedHeaders = ["accept", "anthropic-version", "anthropic-beta", "openai-beta"];

function send({ provider, path, incoming, signal }: Call, body: object | null): Promise<IncomingMessage> {
  const url = new URL(`${provider.baseUrl}${path}`);
  const payload = body === null ? null : Buffer.from(JSON.stringify(body));
  const passed = passedHeaders.flatMap((name) => {
    const value = headerOf(incoming, name);
    return value === null ? [] : [[name, value] as const];
  });
  const headers = {
    ...Object.fromEntries(passed),
    // A provider's own word on its features goes on top of what the agent asks for.
    ...withBeta(provider.headers, headerOf(incoming, "anthropic-beta")),
    ...(payload === null ? {} : { "content-type": "application/json", "content-length": payload.length }),
  };
  const request = url.protocol === "https:" ? secureRequest : plainRequest;
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: incoming.method, headers, signal, timeout: silenceMs }, resolve);
    outgoing.once("error", reject);
    outgoing.once("timeout", () => outgoing.destroy(new Error(`${provider.name} said nothing for 10 minutes`)));
    outgoing.end(payload);
  });
}

function withBeta(headers: Readonly<Record<string, string>>, asked: string | null): Record<string, string> {
  const ours = headers["anthropic-beta"];
  return { ...headers, ...(ours === undefined || asked === null ? {} : { "anthropic-beta": `${asked},${ours}` }) };
}

const answeredHeaders = ["content-type", "request-id", "x-request-id", "retry-after", "openai-processing-ms"];

/** Passes an answer on as it comes, reading along what it took. */
async function relay(
  { response, signal }: Call,
  reply: IncomingMessage,
  keep: ((answer: CassetteAnswer) => Promise<void>) | null,
): Promise<Settlement> {
  const status = reply.statusCode ?? 502;
  const headers = Object.fromEntries(
    answeredHeaders.flatMap((name) => {
      const value = headerOf(reply, name);
      return value === null ? [] : [[name, value]];
    }),
  );
  const reader = createUsageReader(headers["content-type"] ?? "");
  const kept: Buffer[] = [];
  response.writeHead(status, headers);
  try {
    for await (const chunk of reply as AsyncIterable<Buffer>) {
      reader.take(chunk);
      if (keep !== null) kept.push(chunk);
      if (!response.write(chunk)) await drained(response, signal);
    }
  } catch (error) {
    return { status: "cut", usage: reader.usage(), httpStatus: status, error: messageOf(error) };
  }
  if (keep !== null) await keep({ status, headers, body: Buffer.concat(kept).toString("utf8") });
  const usage = reader.usage();
  if (status >= 400) return { status: "failed", usage, httpStatus: status, error: `the provider answered ${status}` };
  return { status: reader.isWhole() ? "done" : "cut", usage, httpStatus: status, error: null };
}

function replay({ response }: Call, { status, headers, body }: CassetteAnswer): Settlement {
  const reader = createUsageReader(headers["content-type"] ?? "");
  reader.take(Buffer.from(body));
  response.writeHead(status, headers).write(body);
  return { status: status >= 400 ? "failed" : "done", usage: reader.usage(), httpStatus: status, error: null };
}

const drained = (response: ServerResponse, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    response.once("drain", () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
  });
