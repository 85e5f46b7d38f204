// The calls that we forward, and where each names its model and its output limit.
import type { ProviderName } from "../domain/models.ts";

export interface Api {
  readonly provider: ProviderName;
  readonly method: "GET" | "POST";
  /** The path below the provider's prefix, with a group `model` if the path names the model. */
  readonly path: RegExp;
  /** The format of its request; null if it has none. */
  readonly language: "messages" | "chat" | "responses" | "gemini" | null;
  /** Null if the call is free. */
  readonly outputLimit: readonly string[] | null;
  /** The part of the body that holds `outputLimit`; null for the body itself. */
  readonly limitIn: string | null;
  /** Whether a stream reports usage only on request. */
  readonly asksForUsage: boolean;
  /** The query parameters to forward; null for all. */
  readonly query: readonly string[] | null;
}

/** A call that we forward. */
export interface FoundApi {
  readonly api: Api;
  /** The path at the provider. */
  readonly path: string;
  /** Null if the body names it. */
  readonly model: string | null;
}

const plain = { limitIn: null, asksForUsage: false, query: null } as const;
const anthropic = { ...plain, provider: "anthropic", method: "POST", language: "messages" } as const;
const chat = {
  ...plain,
  method: "POST",
  language: "chat",
  path: /^\/v1\/chat\/completions$/,
  outputLimit: ["max_completion_tokens", "max_tokens"],
  asksForUsage: true,
} as const;
const models = { ...plain, method: "GET", path: /^\/v1\/models$/, language: null, outputLimit: null } as const;
// Google accepts a key in the query. Ours goes into a header, and an agent's is dropped.
const google = {
  ...plain,
  provider: "google",
  method: "POST",
  language: "gemini",
  query: ["alt"],
  limitIn: "generationConfig",
} as const;

const apis: readonly Api[] = [
  { ...anthropic, path: /^\/v1\/messages$/, outputLimit: ["max_tokens"] },
  { ...anthropic, path: /^\/v1\/messages\/count_tokens$/, outputLimit: null },
  { ...models, provider: "anthropic" },
  { ...models, provider: "openai" },
  { ...models, provider: "compatible" },
  { ...chat, provider: "openai" },
  { ...chat, provider: "compatible" },
  {
    ...{ ...plain, provider: "openai", method: "POST", language: "responses" },
    ...{ path: /^\/v1\/responses$/, outputLimit: ["max_output_tokens"] },
  },
  {
    ...google,
    path: /^\/v1(beta)?\/models\/(?<model>[\w.-]+):(generateContent|streamGenerateContent)$/,
    outputLimit: ["maxOutputTokens"],
  },
  { ...google, path: /^\/v1(beta)?\/models\/(?<model>[\w.-]+):countTokens$/, outputLimit: null },
  { ...google, method: "GET", path: /^\/v1(beta)?\/models$/, language: null, outputLimit: null },
];

/** The prefixes of the providers' calls, as their own agents use them. */
const prefixes: Readonly<Record<ProviderName, string>> = {
  anthropic: "/anthropic",
  openai: "/openai",
  google: "/gemini",
  compatible: "/compatible",
};

/** The provider that a path belongs to, if any. */
export const providerAt = (path: string): ProviderName | null =>
  (Object.keys(prefixes) as ProviderName[]).find((name) => path.startsWith(`${prefixes[name]}/`)) ?? null;

/** Identifies a request's call; null if we do not forward it. */
export function findApi(method: string, path: string): FoundApi | null {
  for (const api of apis) {
    const prefix = prefixes[api.provider];
    if (api.method !== method || !path.startsWith(`${prefix}/`)) continue;
    const match = api.path.exec(path.slice(prefix.length));
    if (match !== null) return { api, path: match[0], model: match.groups?.model ?? null };
  }
  return null;
}

/** The part of a request's query to forward, with its question mark. */
export function passedQuery({ query }: Api, asked: string | undefined): string {
  if (asked === undefined) return "";
  if (query === null) return `?${asked}`;
  const kept = [...new URLSearchParams(asked)].filter(([name]) => query.includes(name));
  return kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`;
}

/** The output limit for an agent that sets none. */
const usualOutputTokens = 32_000;
/** The longest answer that we ever request. */
const mostOutputTokens = 1_000_000_000;

/** The largest answer of this call, in tokens. */
export function outputLimitOf(api: Api, body: Readonly<Record<string, unknown>>): number {
  const holder = holderOf(api, body);
  const limits = (api.outputLimit ?? [])
    .map((name) => holder[name])
    .filter((value): value is number => typeof value === "number" && Number.isFinite(value) && value > 0);
  return limits.length === 0 ? usualOutputTokens : Math.min(Math.ceil(Math.min(...limits)), mostOutputTokens);
}

function holderOf({ limitIn }: Api, body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (limitIn === null) return body;
  const holder = body[limitIn];
  return typeof holder === "object" && holder !== null ? (holder as Record<string, unknown>) : {};
}

/** Anthropic's own minimum. */
const leastThinkingTokens = 1_024;
/** Fewer tokens than this are not an answer. */
const leastAnswerTokens = 256;

const isThinking = (value: unknown): value is { readonly budget_tokens: number } =>
  typeof value === "object" &&
  value !== null &&
  "budget_tokens" in value &&
  typeof value.budget_tokens === "number" &&
  Number.isFinite(value.budget_tokens);

/** The smallest room that makes a call worthwhile. */
export const leastOutputOf = (body: Readonly<Record<string, unknown>>): number =>
  isThinking(body.thinking) ? leastThinkingTokens + leastAnswerTokens : leastAnswerTokens;

/** Whether to request usage in a chat's stream although its client did not. */
export function hidesUsage(api: Api, { stream, stream_options: options }: Readonly<Record<string, unknown>>): boolean {
  if (!api.asksForUsage || stream !== true) return false;
  return !(
    typeof options === "object" &&
    options !== null &&
    "include_usage" in options &&
    options.include_usage === true
  );
}

/** Returns the body to send, limited to the granted tokens and requesting usage. */
export function heldBody(api: Api, body: Readonly<Record<string, unknown>>, outputTokens: number) {
  const holder = holderOf(api, body);
  const [first = "max_tokens"] = api.outputLimit ?? [];
  const named = api.outputLimit?.filter((name) => holder[name] !== undefined && holder[name] !== null) ?? [];
  // Servers differ in which of the two they follow, so set both.
  const limits = (named.length === 0 ? [first] : named).map((name) => [name, outputTokens]);
  const limited = { ...holder, ...Object.fromEntries(limits) };
  const held: Record<string, unknown> = api.limitIn === null ? limited : { ...body, [api.limitIn]: limited };
  const { thinking } = body;
  if (api.language === "messages" && isThinking(thinking) && thinking.budget_tokens >= outputTokens) {
    // Anthropic rejects a call whose thinking budget exceeds its output limit.
    held.thinking = { ...thinking, budget_tokens: Math.max(leastThinkingTokens, outputTokens - leastAnswerTokens) };
  }
  if (!api.asksForUsage || body.stream !== true) return held;
  const options = typeof body.stream_options === "object" ? body.stream_options : {};
  return { ...held, stream_options: { ...options, include_usage: true } };
}
