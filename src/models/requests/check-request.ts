// Checks what a request would make its provider do, before we forward it.
//
// MP5. Unless the plan allows more, a provider only answers from the request: it does not search,
// fetch, run, store or generate anything else for an agent. A refusal names the part; nothing is
// dropped silently.
// MP6. No call can cost more than its reservation.
import type { ModelTool, ProviderTools } from "../../domain/models.ts";
import type { ProviderApi } from "../apis.ts";
import { checkMessages, outsideBeta } from "./anthropic.ts";
import { checkChat } from "./chat.ts";
import { checkGemini } from "./gemini.ts";
import { type Fields, fieldsOf, type OutsidePart, toolNamed } from "./parts.ts";
import { checkResponses } from "./responses.ts";

export interface CheckedRequest {
  readonly api: ProviderApi;
  readonly model: unknown;
  readonly body: Fields;
  /** From the header `anthropic-beta`. */
  readonly beta: string | null;
}

/** Returns the reason to refuse a request, in one line; null if it may pass. */
export function refusedPart(request: CheckedRequest, allowed: ProviderTools): string | null {
  const costly = costlyPart(request);
  if (costly !== null) return `${costly} is not forwarded, because a budget could not bound its cost`;
  if (allowed === "all") return null;
  const part = outsideParts(request).find(({ tool }) => tool === null || !allowed.includes(tool));
  if (part === undefined) return null;
  const way = part.tool === null ? "network: open" : `modelTools: [${part.tool}]`;
  return `${part.part} is not forwarded, because a provider may do nothing outside this call. Allow it in the plan with ${way}`;
}

const checks = { messages: checkMessages, chat: checkChat, responses: checkResponses, gemini: checkGemini } as const;

function outsideParts({ api, model, body, beta }: CheckedRequest): OutsidePart[] {
  const outsideParts: OutsidePart[] = [];
  if (api.language !== null) checks[api.language](body, (part) => outsideParts.push(part));
  for (const name of (beta ?? "").split(",").map((one) => one.trim())) {
    if (outsideBeta.test(name)) outsideParts.push({ part: `the beta ${name}`, tool: betaTool(name) });
  }
  // These models always search the web.
  if (typeof model === "string" && /-search(-|$)|deep-research|:online$|^(perplexity\/)?sonar/.test(model)) {
    outsideParts.push({ part: `the model ${model}`, tool: "web_search" });
  }
  return outsideParts;
}

const betaTool = (name: string): ModelTool | null =>
  name.startsWith("skills-") ? "code_execution" : toolNamed(name.replaceAll("-", "_"));

/** Finds fields that would let a call cost more than its token limit at its model's usual price. */
function costlyPart({ body }: CheckedRequest): string | null {
  const config = fieldsOf(body.generationConfig ?? body.generation_config);
  const counts = { n: body.n, best_of: body.best_of, candidateCount: config.candidateCount ?? config.candidate_count };
  for (const [name, value] of Object.entries(counts)) {
    if (value !== undefined && value !== null && value !== 1) return `${name}: ${JSON.stringify(value)}`;
  }
  const tier = body.service_tier ?? body.serviceTier;
  if (tier !== undefined && tier !== null && !usualTiers.has(String(tier).toLowerCase())) {
    return `service_tier: ${JSON.stringify(tier)}`;
  }
  for (const name of costlyFields) {
    const value = body[name];
    if (value !== undefined && value !== null && value !== false) return name;
  }
  if (body.speed !== undefined && body.speed !== null && body.speed !== "standard") {
    return `speed: ${JSON.stringify(body.speed)}`;
  }
  return null;
}

const usualTiers = new Set(["auto", "default", "standard", "standard_only", "flex"]);
/**
 * A prediction costs beyond the output limit, a region raises the price, background work is not
 * counted, and the rest are limits that only some servers know.
 */
const costlyFields = [
  ...["prediction", "inference_geo", "background", "audio", "use_beam_search", "generation_config", "options"],
  ...["max_new_tokens", "max_length", "min_tokens", "n_predict", "num_predict", "max_generated_tokens"],
];
