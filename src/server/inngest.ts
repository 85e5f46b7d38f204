import { createHash, createHmac } from "node:crypto";
import { Inngest, type InngestFunction } from "inngest";
import { serve } from "inngest/edge";
import { z } from "zod";
import type { InngestSettings } from "../config/engine.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { DomainEvent } from "../domain/events/events.ts";
import type { InngestEndpoint, RegisteredAt } from "./port.ts";

export interface InngestOptions extends Omit<InngestSettings, "kind" | "serveOrigin"> {
  readonly warn: (message: string) => void;
}

/** The client of an Inngest server that runs the functions. */
export interface InngestConnection {
  readonly client: Inngest.Any;
  /**
   * Sends events under their ids. Rejects with `engine`, retryable, if the server does not accept
   * them.
   */
  send(events: readonly DomainEvent[]): Promise<void>;
  /** The endpoint where the server, which reaches us at `origin`, calls these functions. */
  endpoint(functions: readonly InngestFunction.Any[], origin: string): InngestEndpoint;
}

export const inngestPath = "/api/inngest";
const appName = "wavesmith";
const answerMs = 15_000;

/** Silences the SDK, because our own events and warnings report failed steps. */
const silent = (): void => undefined;
const quiet = { info: silent, warn: silent, error: silent, debug: silent };

export function connectInngest(options: InngestOptions): InngestConnection {
  const { isDev, baseUrl, eventKey, signingKey, signingKeyFallback, environment } = options;
  const client = new Inngest({
    id: appName,
    isDev,
    eventKey,
    ...(baseUrl === null ? {} : { baseUrl }),
    ...(signingKey === null ? {} : { signingKey }),
    ...(signingKeyFallback === null ? {} : { signingKeyFallback }),
    ...(environment === null ? {} : { env: environment }),
    // A server that never answers would otherwise hold up every later event.
    fetch: (input, init) => fetch(input, { ...init, signal: init?.signal ?? AbortSignal.timeout(answerMs) }),
    logger: quiet,
    internalLogger: quiet,
  });
  return {
    client,
    async send(events) {
      try {
        await client.send(events.map(({ name, id, data }) => ({ name, id, data })));
      } catch (error) {
        throw unreachable(options, "did not accept an event", error);
      }
    },
    endpoint: (functions, origin) => endpointOf(options, client, functions, origin),
  };
}

function endpointOf(
  options: InngestOptions,
  client: Inngest.Any,
  functions: readonly InngestFunction.Any[],
  origin: string,
): InngestEndpoint {
  const url = new URL(inngestPath, origin);
  // Without a signature, a stranger could make us register another address.
  const handler = serve({ client, functions, serveOrigin: origin, servePath: inngestPath, enableUnauthedSync: false });
  return {
    async handle(request) {
      const response = await handler(request);
      if (response.status === 401) {
        options.warn("refused a call of /api/inngest that is not signed with INNGEST_SIGNING_KEY");
      }
      return response;
    },
    async register() {
      const request = new Request(url, { method: "PUT", headers: { host: url.host, ...signature(options) } });
      const response = await handler(request);
      if (response.ok) return;
      const { message } = (await response.json()) as { message?: string };
      throw unreachable(options, "did not register our functions", message ?? `status ${response.status}`);
    },
    registered: () => registeredAt(options, url),
    checkEventKey: () => checkEventKey(options),
  };
}

const stepsSchema = z.object({ steps: z.array(z.object({ uri: z.string() })) });
/** The functions as `GET /dev` and `GET /v1/apps/:name/functions` describe them. */
const devSchema = z.object({ functions: z.array(stepsSchema.catch({ steps: [] })) });
const appSchema = z.array(z.object({ config: stepsSchema }).catch({ config: { steps: [] } }));

/**
 * Asks the server at which URL it calls us. A dev server answers anyone; others need the signing
 * key, and some do not answer at all.
 */
async function registeredAt(options: InngestOptions, own: URL): Promise<RegisteredAt> {
  const { isDev, baseUrl, signingKey } = options;
  const place = new URL(isDev ? "/dev" : `/v1/apps/${appName}/functions`, baseUrl ?? "https://api.inngest.com");
  const headers = isDev || signingKey === null ? {} : { authorization: `Bearer ${hashedKey(signingKey)}` };
  const response = await fetch(place, { headers, signal: AbortSignal.timeout(answerMs) }).catch((error: unknown) => {
    throw unreachable(options, "does not answer", error);
  });
  const body: unknown = response.ok ? await response.json().catch(() => null) : null; // no JSON: unknown
  const dev = devSchema.safeParse(body).data?.functions;
  const functions = dev ?? appSchema.safeParse(body).data?.map(({ config }) => config);
  if (functions === undefined) return { at: "unknown" };
  const ours = functions.flatMap(({ steps }) => steps.map(({ uri }) => uri)).filter(isOurFunction);
  if (ours.length === 0) return { at: "nowhere" };
  const other = ours.find((uri) => endpointUrl(uri) !== endpointUrl(own.href));
  return other === undefined ? { at: "us" } : { at: "other", url: endpointUrl(other) };
}

const isOurFunction = (uri: string): boolean =>
  URL.canParse(uri) && new URL(uri).searchParams.get("fnId")?.startsWith(`${appName}-`) === true;

/** Drops the function's name and unifies localhost, which a dev server writes for 127.0.0.1. */
function endpointUrl(uri: string): string {
  const { protocol, hostname, port, pathname } = new URL(uri);
  return `${protocol}//${hostname === "localhost" ? "127.0.0.1" : hostname}${port === "" ? "" : `:${port}`}${pathname}`;
}

/** Sends an empty list of events, so that the server checks only the key. */
async function checkEventKey(options: InngestOptions): Promise<void> {
  const place = new URL(`/e/${encodeURIComponent(options.eventKey)}`, options.baseUrl ?? "https://inn.gs");
  const headers = { "content-type": "application/json" };
  const request = { method: "POST", headers, body: "[]", signal: AbortSignal.timeout(answerMs) };
  const response = await fetch(place, request).catch((error: unknown) => {
    throw unreachable(options, "does not answer", error);
  });
  if (response.status === 401 || response.status === 403)
    throw unreachable(options, "refuses INNGEST_EVENT_KEY", `status ${response.status}`);
}

/** Hashes a signing key as the SDK does: the prefix stays, the rest is hashed. */
const hashedKey = (key: string): string =>
  key.replace(/^(signkey-\w+-)?(.*)$/s, (_, prefix: string | undefined, rest: string) => {
    return `${prefix ?? ""}${createHash("sha256").update(Buffer.from(rest, "hex")).digest("hex")}`;
  });

/** Signs our own request to our own endpoint the way the server signs its requests. */
function signature({ isDev, signingKey }: InngestOptions): Record<string, string> {
  if (isDev || signingKey === null) return {};
  const seconds = Math.round(Date.now() / 1000).toString();
  const key = signingKey.replace(/^signkey-\w+-/, "");
  return { "x-inngest-signature": `t=${seconds}&s=${createHmac("sha256", key).update(seconds).digest("hex")}` };
}

function unreachable({ baseUrl, isDev }: InngestOptions, what: string, error: unknown): WavesmithError {
  const place = baseUrl === null ? "Inngest's cloud" : `Inngest at ${baseUrl}`;
  const remedy = isDev
    ? "start the dev server (npx inngest-cli dev), or say where it is with INNGEST_DEV=http://…"
    : "check INNGEST_BASE_URL, INNGEST_EVENT_KEY and INNGEST_SIGNING_KEY";
  return new WavesmithError("engine", `${place} ${what}: ${messageOf(error)}`, {
    retryable: true,
    remedy,
    cause: error,
  });
}
