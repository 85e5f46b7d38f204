// Sends an agent's call to the provider, with none of the agent's headers but those of MP3.
import { type IncomingMessage, request as plainRequest, type ServerResponse } from "node:http";
import { request as secureRequest } from "node:https";
import type { ProviderApi } from "../apis.ts";
import type { ModelOwner, ModelProvider } from "../port.ts";
import type { ReadEnding } from "./usage.ts";

export interface ProviderCall {
  readonly api: ProviderApi;
  readonly owner: ModelOwner;
  readonly provider: ModelProvider;
  readonly path: string;
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  /** The agent hung up. */
  readonly gone: AbortSignal;
  /** Aborts when we stop listening to the provider. */
  readonly cut: AbortSignal;
  /** Whether to remove the usage event from the stream, because the agent did not request it. */
  readonly hidesUsage: boolean;
  /** The likely cost of a request of this size; 0 if it is free. */
  readonly likelyInputTokens: number;
  /** Whether the provider has the whole request, so that breaking off now may still cost. */
  wasSent: boolean;
  /** Returns how the answer ends if no more of it comes; null before its first byte. */
  readEnding: (() => ReadEnding) | null;
  /** The same when the agent hung up; null if it has not. */
  heardEnding: ReadEnding | null;
}

/** How long a provider may stay silent. */
const silenceMs = 10 * 60_000;
/** The headers that select a version of the interface; all others stay with the agent. */
const passedHeaders = ["accept", "anthropic-version", "anthropic-beta", "openai-beta"];

export function send(call: ProviderCall, body: object | null): Promise<IncomingMessage> {
  const { provider, path, incoming, cut: signal } = call;
  const url = new URL(`${provider.baseUrl}${path}`);
  const payload = body === null ? null : Buffer.from(JSON.stringify(body));
  const passed = passedHeaders.flatMap((name) => {
    const value = headerOf(incoming, name);
    return value === null ? [] : [[name, value] as const];
  });
  const headers = {
    ...Object.fromEntries(passed),
    // Our settings for a provider's features are added to those the agent requests.
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
    outgoing.once("timeout", () => outgoing.destroy(new Error(`${provider.name} was silent for 10 minutes`)));
    outgoing.end(payload);
  });
}

function withBeta(headers: Readonly<Record<string, string>>, requestedBeta: string | null): Record<string, string> {
  const ours = headers["anthropic-beta"];
  return {
    ...headers,
    ...(ours === undefined || requestedBeta === null ? {} : { "anthropic-beta": `${requestedBeta},${ours}` }),
  };
}

const maxRefusalBytes = 64 * 1024;
/** How long the body of a refusal may take. */
const refusalMs = 10_000;

/**
 * Reads how many seconds a busy provider asks us to wait, from a header or from Google's error
 * body.
 */
export async function requestedWait(reply: IncomingMessage): Promise<string | null> {
  let text = "";
  const late = setTimeout(() => reply.destroy(), refusalMs);
  try {
    for await (const chunk of reply as AsyncIterable<Buffer>) {
      text += chunk.toString("latin1");
      if (text.length > maxRefusalBytes) break;
    }
  } catch {
    // The status already says that it is busy; a truncated body adds nothing.
  } finally {
    clearTimeout(late);
  }
  return headerOf(reply, "retry-after") ?? /"retryDelay"\s*:\s*"(\d+(\.\d+)?)s"/.exec(text)?.[1] ?? null;
}

export const headerOf = ({ headers }: IncomingMessage, name: string): string | null => {
  const value = headers[name];
  return typeof value === "string" ? value : null;
};
