// The calls that we forward, and where each names its model and its output limit.
import type { ProviderName, providerNames } from "../domain/models.ts";

export interface ProviderApi {
  readonly provider: (typeof providerNames)[number];
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
  readonly api: ProviderApi;
  readonly provider: ProviderName;
  /** The path at the provider. */
  readonly path: string;
  /** The model named in the path; null if the body names it. */
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

const apis: readonly ProviderApi[] = [
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

/** The first part of a path selects the provider. */
const providerPath = /^\/(anthropic|openai|gemini|compatible(?:-[a-z0-9-]+)?)(\/.*)$/;

function splitPath(path: string): { readonly provider: ProviderName; readonly rest: string } | null {
  const [, prefix, rest] = providerPath.exec(path) ?? [];
  if (prefix === undefined || rest === undefined) return null;
  return { provider: prefix === "gemini" ? "google" : (prefix as ProviderName), rest };
}

/** The provider that a path belongs to, if any. */
export const providerAt = (path: string): ProviderName | null => splitPath(path)?.provider ?? null;

/** Identifies a request's call; null if we do not forward it. */
export function findApi(method: string, path: string): FoundApi | null {
  const split = splitPath(path);
  if (split === null) return null;
  const { provider, rest } = split;
  const kind = provider.startsWith("compatible") ? "compatible" : provider;
  for (const api of apis) {
    const match = api.method === method && api.provider === kind ? api.path.exec(rest) : null;
    if (match === null) continue;
    const whole = match[0];
    return { api, provider, path: kind === "compatible" ? whole.slice(3) : whole, model: match.groups?.model ?? null };
  }
  return null;
}

/** Returns the part of a request's query to forward, with its question mark. */
export function forwardedQuery({ query: allowed }: ProviderApi, query: string | undefined): string {
  if (query === undefined) return "";
  if (allowed === null) return `?${query}`;
  const entries = [...new URLSearchParams(query)].filter(([name]) => allowed.includes(name));
  return entries.length === 0 ? "" : `?${new URLSearchParams(entries)}`;
}

/** The output limit for an agent that sets none. */
export const usualOutputTokens = 32_000;
/** The longest answer that we ever request. */
const maxOutputTokens = 1_000_000_000;

/** The largest answer that this call asks for, in tokens; null if it names none. */
export function outputLimitOf(api: ProviderApi, body: Readonly<Record<string, unknown>>): number | null {
  const holder = holderOf(api, body);
  const limits = (api.outputLimit ?? [])
    .map((name) => holder[name])
    .filter((value): value is number => typeof value === "number" && Number.isFinite(value) && value > 0);
  return limits.length === 0 ? null : Math.min(Math.ceil(Math.min(...limits)), maxOutputTokens);
}

function holderOf(
  { limitIn }: ProviderApi,
  body: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (limitIn === null) return body;
  const holder = body[limitIn];
  return typeof holder === "object" && holder !== null ? (holder as Record<string, unknown>) : {};
}

/** Anthropic's own minimum. */
const leastThinkingTokens = 1_024;
/** With fewer tokens than this, an answer is useless. */
const leastAnswerTokens = 256;

const isThinking = (value: unknown): value is { readonly budget_tokens: number } =>
  typeof value === "object" &&
  value !== null &&
  "budget_tokens" in value &&
  typeof value.budget_tokens === "number" &&
  Number.isFinite(value.budget_tokens);

/** Returns the smallest answer, in tokens, that makes a call worthwhile. */
export const leastOutputOf = (body: Readonly<Record<string, unknown>>): number =>
  isThinking(body.thinking) ? leastThinkingTokens + leastAnswerTokens : leastAnswerTokens;

/** Whether we must request usage in a chat's stream because its client did not. */
export function hidesUsage(
  api: ProviderApi,
  { stream, stream_options: options }: Readonly<Record<string, unknown>>,
): boolean {
  if (!api.asksForUsage || stream !== true) return false;
  return !(
    typeof options === "object" &&
    options !== null &&
    "include_usage" in options &&
    options.include_usage === true
  );
}

/** Returns the body to send, limited to these tokens (null: unchanged) and requesting usage. */
export function limitBody(api: ProviderApi, body: Readonly<Record<string, unknown>>, outputTokens: number | null) {
  const held = outputTokens === null ? { ...body } : withLimit(api, body, outputTokens);
  if (!api.asksForUsage || body.stream !== true) return held;
  const options = typeof body.stream_options === "object" ? body.stream_options : {};
  return { ...held, stream_options: { ...options, include_usage: true } };
}

function withLimit(
  api: ProviderApi,
  body: Readonly<Record<string, unknown>>,
  outputTokens: number,
): Record<string, unknown> {
  const holder = holderOf(api, body);
  const [first = "max_tokens"] = api.outputLimit ?? [];
  const named = api.outputLimit?.filter((name) => holder[name] !== undefined && holder[name] !== null) ?? [];
  // Servers differ in which of the two they follow, so set both.
  const limits = (named.length === 0 ? [first] : named).map((name) => [name, outputTokens]);
  const limited = { ...holder, ...Object.fromEntries(limits) };
  const limitedBody: Record<string, unknown> = api.limitIn === null ? limited : { ...body, [api.limitIn]: limited };
  const { thinking } = body;
  if (api.language === "messages" && isThinking(thinking) && thinking.budget_tokens >= outputTokens) {
    // Anthropic rejects a call whose thinking budget exceeds its output limit.
    limitedBody.thinking = {
      ...thinking,
      budget_tokens: Math.max(leastThinkingTokens, outputTokens - leastAnswerTokens),
    };
  }
  return limitedBody;
}
