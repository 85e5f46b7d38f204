// One call of an agent's on its way to the provider.
//
// P3. Of what an agent sent as headers nothing is passed on but what the provider's versioning
// needs.
import { type IncomingMessage, request as plainRequest, type ServerResponse } from "node:http";
import { request as secureRequest } from "node:https";
import type { Api } from "./apis.ts";
import type { ModelOwner, ModelProvider } from "./port.ts";

export interface Call {
  readonly api: Api;
  readonly owner: ModelOwner;
  readonly provider: ModelProvider;
  readonly path: string;
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  /** The agent hung up. */
  readonly gone: AbortSignal;
  /** What the provider still says is not waited for any more. */
  readonly cut: AbortSignal;
  /** Its agent did not ask what it took: an event of a stream that says so is for us alone. */
  readonly hidesUsage: boolean;
  /** What a request of this size most likely takes; 0: it costs nothing. */
  readonly likelyInputTokens: number;
  /** Whether the provider has all of it, and may be at work: what then breaks off may cost. */
  wasSent: boolean;
}

/** How long a provider may say nothing at all. */
const silenceMs = 10 * 60_000;
/**
 * Which version of its interface an agent speaks; everything else of its headers is its own affair.
 */
const passedHeaders = ["accept", "anthropic-version", "anthropic-beta", "openai-beta"];

export function send(call: Call, body: object | null): Promise<IncomingMessage> {
  const { provider, path, incoming, cut: signal } = call;
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
    outgoing.once("finish", () => {
      call.wasSent = true;
    });
    outgoing.once("error", reject);
    outgoing.once("timeout", () => outgoing.destroy(new Error(`${provider.name} said nothing for 10 minutes`)));
    outgoing.end(payload);
  });
}

function withBeta(headers: Readonly<Record<string, string>>, asked: string | null): Record<string, string> {
  const ours = headers["anthropic-beta"];
  return { ...headers, ...(ours === undefined || asked === null ? {} : { "anthropic-beta": `${asked},${ours}` }) };
}

const longestRefusalBytes = 64 * 1024;

/**
 * In seconds, how long a busy provider asks to be left alone: in a header, or as Google's
 * interfaces say it.
 */
export async function askedWait(reply: IncomingMessage): Promise<string | null> {
  let text = "";
  try {
    for await (const chunk of reply as AsyncIterable<Buffer>) {
      if (text.length < longestRefusalBytes) text += chunk.toString("latin1");
    }
  } catch {
    // That it is busy is known; a refusal that is cut off says no more.
  }
  return headerOf(reply, "retry-after") ?? /"retryDelay"\s*:\s*"(\d+(\.\d+)?)s"/.exec(text)?.[1] ?? null;
}

export const headerOf = ({ headers }: IncomingMessage, name: string): string | null => {
  const value = headers[name];
  return typeof value === "string" ? value : null;
};
