import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModel, ModelMessage, streamText } from "ai";

export interface ModelAccess {
  /** The model proxy's address and the token for it. */
  readonly url: string;
  readonly token: string;
}

export const efforts = ["low", "medium", "high", "max"] as const;
export type Effort = (typeof efforts)[number];

type ProviderOptions = NonNullable<Parameters<typeof streamText>[0]["providerOptions"]>;

/** A model, and how to call it. */
export interface ChosenModel {
  readonly name: string;
  readonly model: LanguageModel;
  readonly options: ProviderOptions;
  /** Whether it can look at images in the results of tools. */
  readonly seesImages: boolean;
  /** The size of its window in tokens. */
  readonly windowTokens: number;
  /** The longest answer to request; null leaves it to the provider's client. */
  readonly outputTokens: number | null;
}

const examples = "anthropic:claude-sonnet-5, openai:gpt-6-sol, google:gemini-3.8-flash or compatible:llama3.3";

const noName = (name: string): Error =>
  new Error(`${JSON.stringify(name)} is not a model: write provider:model, such as ${examples}`);

/**
 * Returns the model for `provider:model`, reached through the proxy. Rejects with an example when
 * the name is not of that form.
 */
export async function chooseModel(name: string, access: ModelAccess, effort: Effort | null): Promise<ChosenModel> {
  const chosen = modelFor(name, access, effort);
  const { contextTokens, outputTokens } = await knownLimits(name, access);
  return { name, ...chosen, windowTokens: contextTokens ?? windowOf(name), outputTokens };
}

function modelFor(name: string, { url, token }: ModelAccess, effort: Effort | null) {
  const colon = name.indexOf(":");
  const [provider, model] = [name.slice(0, Math.max(colon, 0)), name.slice(colon + 1)];
  if (provider === "anthropic") {
    const options = { anthropic: effort === null ? {} : anthropicEffort(model, effort) };
    return {
      model: createAnthropic({ baseURL: `${url}/anthropic/v1`, authToken: token })(model),
      options,
      seesImages: true,
    };
  }
  if (provider === "openai") {
    // Nothing is stored at the provider; otherwise a later call could continue from content that we
    // never see.
    const reasoning = effort === null ? {} : { reasoningEffort: effort === "max" ? "xhigh" : effort };
    const options = { openai: { store: false, ...reasoning } };
    return {
      model: createOpenAI({ baseURL: `${url}/openai/v1`, apiKey: token }).responses(model),
      options,
      seesImages: true,
    };
  }
  if (provider === "google") {
    const options = { google: effort === null ? {} : { thinkingConfig: googleThinking(model, effort) } };
    const google = createGoogleGenerativeAI({ baseURL: `${url}/gemini/v1beta`, apiKey: token });
    return { model: google(model), options, seesImages: true };
  }
  if (!isCompatible(provider)) throw noName(name);
  const baseURL = `${url}/${provider}/v1`;
  const compatible = createOpenAICompatible({ name: "compatible", baseURL, apiKey: token, includeUsage: true });
  const options = { compatible: effort === null ? {} : { reasoningEffort: effort === "max" ? "high" : effort } };
  return { model: compatible(model), options, seesImages: false };
}

const isCompatible = (provider: string): boolean => /^compatible(-[a-z0-9-]+)?$/.test(provider);

/** Newer Claude models decide by themselves how long they think; older ones take a number. */
function anthropicEffort(model: string, effort: Effort) {
  if (/claude-[a-z]+-(4-[6-9]|[5-9])/.test(model)) return { effort, thinking: { type: "adaptive" as const } };
  const budgetTokens = { low: 4_000, medium: 10_000, high: 24_000, max: 31_000 }[effort];
  return { thinking: { type: "enabled" as const, budgetTokens } };
}

/** Gemini 2.5 takes a number of tokens, later ones a level. */
function googleThinking(model: string, effort: Effort) {
  if (!/gemini-2/.test(model)) return { thinkingLevel: effort === "max" ? ("high" as const) : effort };
  return { thinkingBudget: { low: 2_000, medium: 8_000, high: 16_000, max: 24_000 }[effort] };
}

interface Limits {
  readonly contextTokens: number | null;
  readonly outputTokens: number | null;
}

const unknownLimits: Limits = { contextTokens: null, outputTokens: null };
const limitsTimeoutMs = 10_000;

/** Asks the proxy for limits that are set or that the model's server reports. */
async function knownLimits(name: string, { url, token }: ModelAccess): Promise<Limits> {
  try {
    const response = await fetch(`${url}/wavesmith/limits?model=${encodeURIComponent(name)}`, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(limitsTimeoutMs),
    });
    if (!response.ok) return unknownLimits;
    const { contextTokens, outputTokens } = (await response.json()) as Partial<Limits>;
    return { contextTokens: contextTokens ?? null, outputTokens: outputTokens ?? null };
  } catch {
    return unknownLimits; // The call that follows says what is wrong.
  }
}

/** Returns the size of a model's window in tokens; a small default when it is unknown. */
function windowOf(name: string): number {
  if (/claude-[a-z]+-(4-[6-9]|[5-9])/.test(name)) return 1_000_000;
  if (/claude/.test(name)) return 200_000;
  if (/gpt-4\.1|gemini/.test(name)) return 1_000_000;
  if (/gpt-(5\.[4-9]|[6-9])(?!.*(mini|nano))/.test(name)) return 900_000;
  if (/gpt-5|o4-mini/.test(name)) return 272_000;
  if (/^compatible/.test(name)) return 32_000;
  return 128_000;
}

const cached = { anthropic: { cacheControl: { type: "ephemeral" as const } } };

/**
 * Marks the ends of what Anthropic is to cache: the instructions with the tools, and the
 * conversation so far. Other providers cache by themselves and ignore the marks.
 */
export function withCacheMarks(system: string, messages: readonly ModelMessage[]): ModelMessage[] {
  const last = messages.length - 1;
  const marked = messages.map((message, at) => (at === last ? { ...message, providerOptions: cached } : message));
  return [{ role: "system", content: system, providerOptions: cached }, ...marked];
}
