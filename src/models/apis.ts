// The calls that pass, and where each says its model and how much it may answer.
import type { ProviderName } from "../domain/models.ts";

export interface Api {
  readonly provider: ProviderName;
  readonly method: "GET" | "POST";
  /** Below the provider's prefix; a group `model` where the path names it instead of the body. */
  readonly path: RegExp;
  /** How a request of it is read; null: it has none. */
  readonly language: "messages" | "chat" | "responses" | "gemini" | null;
  /** Null: costs nothing. */
  readonly outputLimit: readonly string[] | null;
  /** The part of the body that holds `outputLimit`; null: the body itself. */
  readonly limitIn: string | null;
  /** Whether a stream says what it took only when asked. */
  readonly asksForUsage: boolean;
  /** What of the query is passed on; null: all of it. */
  readonly query: readonly string[] | null;
}

/** A call that passes. */
export interface FoundApi {
  readonly api: Api;
  /** At the provider. */
  readonly path: string;
  /** Null: the body names it. */
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
// A key may stand in the query there: ours goes into a header, an agent's goes nowhere.
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

/** Where a provider's calls are, by what its own agents call it. */
const prefixes: Readonly<Record<ProviderName, string>> = {
  anthropic: "/anthropic",
  openai: "/openai",
  google: "/gemini",
  compatible: "/compatible",
};

/** Whose calls are at this path, when they are anybody's. */
export const providerAt = (path: string): ProviderName | null =>
  (Object.keys(prefixes) as ProviderName[]).find((name) => path.startsWith(`${prefixes[name]}/`)) ?? null;

/** The call that a request is; null when it is none that passes. */
export function findApi(method: string, path: string): FoundApi | null {
  for (const api of apis) {
    const prefix = prefixes[api.provider];
    if (api.method !== method || !path.startsWith(`${prefix}/`)) continue;
    const match = api.path.exec(path.slice(prefix.length));
    if (match !== null) return { api, path: match[0], model: match.groups?.model ?? null };
  }
  return null;
}

/** What of a request's query is passed on, with its question mark. */
export function passedQuery({ query }: Api, asked: string | undefined): string {
  if (asked === undefined) return "";
  if (query === null) return `?${asked}`;
  const kept = [...new URLSearchParams(asked)].filter(([name]) => query.includes(name));
  return kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`;
}

/** What an agent that sets no limit may get in one answer. */
const usualOutputTokens = 32_000;
/** No answer is longer, whatever is asked for. */
const mostOutputTokens = 1_000_000_000;

/** The most this call may answer with, in tokens. */
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

/** Anthropic's own bound. */
const leastThinkingTokens = 1_024;
/** Fewer tokens than these are no answer. */
const leastAnswerTokens = 256;

const isThinking = (value: unknown): value is { readonly budget_tokens: number } =>
  typeof value === "object" &&
  value !== null &&
  "budget_tokens" in value &&
  typeof value.budget_tokens === "number" &&
  Number.isFinite(value.budget_tokens);

/** With less room than this a call is not worth making. */
export const leastOutputOf = (body: Readonly<Record<string, unknown>>): number =>
  isThinking(body.thinking) ? leastThinkingTokens + leastAnswerTokens : leastAnswerTokens;

/** Whether a chat's stream has to say what it took although its client did not ask. */
export function hidesUsage(api: Api, { stream, stream_options: options }: Readonly<Record<string, unknown>>): boolean {
  if (!api.asksForUsage || stream !== true) return false;
  return !(
    typeof options === "object" &&
    options !== null &&
    "include_usage" in options &&
    options.include_usage === true
  );
}

/** The body that is sent: held to the tokens granted, and made to tell what it took. */
export function heldBody(api: Api, body: Readonly<Record<string, unknown>>, outputTokens: number) {
  const holder = holderOf(api, body);
  const [first = "max_tokens"] = api.outputLimit ?? [];
  const named = api.outputLimit?.filter((name) => holder[name] !== undefined && holder[name] !== null) ?? [];
  // Which of two a server goes by is its own affair, so each is held.
  const limits = (named.length === 0 ? [first] : named).map((name) => [name, outputTokens]);
  const limited = { ...holder, ...Object.fromEntries(limits) };
  const held: Record<string, unknown> = api.limitIn === null ? limited : { ...body, [api.limitIn]: limited };
  const { thinking } = body;
  if (api.language === "messages" && isThinking(thinking) && thinking.budget_tokens >= outputTokens) {
    // Anthropic refuses a call that may think for longer than it may answer.
    held.thinking = { ...thinking, budget_tokens: Math.max(leastThinkingTokens, outputTokens - leastAnswerTokens) };
  }
  if (!api.asksForUsage || body.stream !== true) return held;
  const options = typeof body.stream_options === "object" ? body.stream_options : {};
  return { ...held, stream_options: { ...options, include_usage: true } };
}
