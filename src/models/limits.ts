import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { z } from "zod";
import type { ModelLimits } from "../domain/models.ts";
import type { ModelProvider } from "./port.ts";

const count = z.number().int().positive().nullish();

/**
 * A model as servers list it. vLLM, LM Studio, llama.cpp and OpenRouter each have their own name
 * for its window.
 */
const listedSchema = z.object({
  id: z.string(),
  max_model_len: count,
  context_length: count,
  max_context_length: count,
  context_window: count,
  meta: z.object({ n_ctx: count }).nullish(),
  top_provider: z.object({ max_completion_tokens: count }).nullish(),
});
const listSchema = z.object({ data: z.array(z.unknown()) });

export interface ListedModel extends ModelLimits {
  readonly name: string;
}

const timeoutMs = 5_000;
const longestListBytes = 8 * 1024 * 1024;

/** Asks a compatible server which models it has, with their limits. Rejects when it cannot say. */
export async function listModels({ baseUrl, headers }: ModelProvider): Promise<ListedModel[]> {
  const { data } = listSchema.parse(JSON.parse(await getText(`${baseUrl}/models`, headers)));
  return data.flatMap((entry) => {
    const listed = listedSchema.safeParse(entry).data;
    if (listed === undefined) return [];
    const { id: name, max_model_len, context_length, max_context_length, context_window, meta } = listed;
    const contextTokens = max_model_len ?? context_length ?? max_context_length ?? context_window ?? meta?.n_ctx;
    const outputTokens = listed.top_provider?.max_completion_tokens ?? null;
    return [{ name, contextTokens: contextTokens ?? null, outputTokens }];
  });
}

function getText(url: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const request = url.startsWith("https:") ? secureRequest : plainRequest;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const outgoing = request(url, { headers, signal }, (reply) => {
      let text = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => {
        if (text.length < longestListBytes) text += chunk;
      });
      reply.once("error", reject).once("end", () => resolve(text));
    });
    outgoing.once("error", reject).end();
  });
}

const unknown: ModelLimits = { contextTokens: null, outputTokens: null };
/** A server may be started again with other limits. */
const keptMs = 5 * 60_000;

export type FindLimits = (provider: string, model: string) => Promise<ModelLimits>;

/**
 * Finds the limits of models: those that a person set, otherwise those that their server reports.
 */
export function createFindLimits(providers: readonly ModelProvider[]): FindLimits {
  const lists = new Map<string, { readonly at: number; readonly models: Promise<ListedModel[]> }>();
  const listed = (provider: ModelProvider): Promise<ListedModel[]> => {
    const kept = lists.get(provider.name);
    if (kept !== undefined && performance.now() - kept.at < keptMs) return kept.models;
    const models = listModels(provider).catch(() => []); // The call that follows says what is wrong.
    lists.set(provider.name, { at: performance.now(), models });
    return models;
  };
  return async (name, model) => {
    const provider = providers.find((one) => one.name === name);
    if (provider === undefined || !name.startsWith("compatible")) return unknown;
    const { contextTokens, outputTokens } = provider.limits ?? unknown;
    if (contextTokens !== null && outputTokens !== null) return { contextTokens, outputTokens };
    const reported = (await listed(provider)).find((one) => one.name === model) ?? unknown;
    return {
      contextTokens: contextTokens ?? reported.contextTokens,
      outputTokens: outputTokens ?? reported.outputTokens,
    };
  };
}
