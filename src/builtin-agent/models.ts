import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModel } from "ai";

export interface ModelAccess {
  /** The model proxy's address and the token for it. */
  readonly url: string;
  readonly token: string;
}

const examples = "anthropic:claude-sonnet-5, openai:gpt-6-sol, google:gemini-3.8-flash or compatible:llama3.3";

/**
 * Returns the model for `provider:model`, reached through the proxy. Throws with an example when
 * the name is not of that form.
 */
export function modelFor(name: string, { url, token }: ModelAccess): LanguageModel {
  const colon = name.indexOf(":");
  const [provider, model] = [name.slice(0, Math.max(colon, 0)), name.slice(colon + 1)];
  if (provider === "anthropic") return createAnthropic({ baseURL: `${url}/anthropic/v1`, authToken: token })(model);
  if (provider === "openai") return createOpenAI({ baseURL: `${url}/openai/v1`, apiKey: token }).responses(model);
  if (provider === "google") {
    return createGoogleGenerativeAI({ baseURL: `${url}/gemini/v1beta`, apiKey: token })(model);
  }
  if (provider === "compatible") {
    const options = { name: "compatible", baseURL: `${url}/compatible/v1`, apiKey: token, includeUsage: true };
    return createOpenAICompatible(options)(model);
  }
  throw new Error(`${JSON.stringify(name)} names no model: write provider:model, such as ${examples}`);
}

/** Returns the size of a model's window in tokens; a small default when it is unknown. */
export function windowOf(name: string): number {
  if (/claude-[a-z]+-(4-[6-9]|[5-9])/.test(name)) return 1_000_000;
  if (/claude/.test(name)) return 200_000;
  if (/gpt-4\.1|gemini/.test(name)) return 1_000_000;
  if (/gpt-(5\.[4-9]|[6-9])(?!.*(mini|nano))/.test(name)) return 900_000;
  if (/gpt-5|o4-mini/.test(name)) return 272_000;
  return 128_000;
}
