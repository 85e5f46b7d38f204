import { createHmac } from "node:crypto";
import { Inngest, type InngestFunction } from "inngest";
import { serve } from "inngest/edge";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { InngestEndpoint, SentEvent } from "./port.ts";

/** An Inngest server, and how we and it know each other. */
export interface InngestOptions {
  /** A dev server: nothing is signed. */
  readonly isDev: boolean;
  /** Null: Inngest's cloud. */
  readonly baseUrl: string | null;
  readonly eventKey: string;
  readonly signingKey: string | null;
  readonly signingKeyFallback: string | null;
  readonly environment: string | null;
  readonly warn: (message: string) => void;
}

/** Our side of an Inngest server that runs the functions. */
export interface InngestConnection {
  readonly client: Inngest.Any;
  /** Sends events under their ids. Rejects with `engine`, retryable, when the server does not take them. */
  send(events: readonly SentEvent[]): Promise<void>;
  /** The endpoint at which the server, which reaches us at `origin`, calls these functions. */
  endpoint(functions: readonly InngestFunction.Any[], origin: string): InngestEndpoint;
}

export const inngestPath = "/api/inngest";
const answerMs = 15_000;

/** What the SDK would print of failed steps is told by our own events and warnings. */
const silent = (): void => undefined;
const quiet = { info: silent, warn: silent, error: silent, debug: silent };

export function connectInngest(options: InngestOptions): InngestConnection {
  const { isDev, baseUrl, eventKey, signingKey, signingKeyFallback, environment } = options;
  const client = new Inngest({
    id: "wavesmith",
    isDev,
    eventKey,
    ...(baseUrl === null ? {} : { baseUrl }),
    ...(signingKey === null ? {} : { signingKey }),
    ...(signingKeyFallback === null ? {} : { signingKeyFallback }),
    ...(environment === null ? {} : { env: environment }),
    // A server that takes a request and never answers would hold up every event after it.
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
        throw away(options, "did not take an event", error);
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
  // Unsigned, a stranger could have us register an address of his own.
  const handler = serve({ client, functions, serveOrigin: origin, servePath: inngestPath, enableUnauthedSync: false });
  return {
    async handle(request) {
      const response = await handler(request);
      if (response.status === 401) {
        options.warn("a call of /api/inngest was refused: it is not signed with INNGEST_SIGNING_KEY");
      }
      return response;
    },
    async register() {
      const request = new Request(url, { method: "PUT", headers: { host: url.host, ...signature(options) } });
      const response = await handler(request);
      if (response.ok) return;
      const { message } = (await response.json()) as { message?: string };
      throw away(options, "could not be told of our functions", message ?? `status ${response.status}`);
    },
    async isKnown() {
      if (!options.isDev) return true; // these keep what they were told
      // It may name our address in its own way, 127.0.0.1 as localhost.
      const signal = AbortSignal.timeout(answerMs);
      const apps = await fetch(new URL("/dev", options.baseUrl!), { signal }).catch((error: unknown) => {
        throw away(options, "does not answer any more", error);
      });
      return (await apps.text()).includes(`:${url.port}${inngestPath}`);
    },
  };
}

/** Our own request to our own endpoint, signed as the server's are. */
function signature({ isDev, signingKey }: InngestOptions): Record<string, string> {
  if (isDev || signingKey === null) return {};
  const seconds = Math.round(Date.now() / 1000).toString();
  const key = signingKey.replace(/^signkey-\w+-/, "");
  return { "x-inngest-signature": `t=${seconds}&s=${createHmac("sha256", key).update(seconds).digest("hex")}` };
}

function away({ baseUrl, isDev }: InngestOptions, what: string, error: unknown): WavesmithError {
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
