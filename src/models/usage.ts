import { StringDecoder } from "node:string_decoder";
import { z } from "zod";
import type { ModelUsage } from "../domain/models.ts";

// What providers say a call took, in the four forms they say it: Anthropic messages, OpenAI chat
// completions, OpenAI responses, Gemini; in a whole answer, or in the events of a stream.

const count = z.number().int().nonnegative().nullish();

const anthropicSchema = z.object({
  input_tokens: count,
  cache_read_input_tokens: count,
  cache_creation_input_tokens: count,
  output_tokens: count,
  cache_creation: z.object({ ephemeral_1h_input_tokens: count }).nullish(),
});
const chatSchema = z.object({
  prompt_tokens: z.number().int().nonnegative(),
  completion_tokens: z.number().int().nonnegative(),
  prompt_tokens_details: z.object({ cached_tokens: count, cache_write_tokens: count }).nullish(),
});
const responsesSchema = z.object({
  input_tokens: z.number().int().nonnegative(),
  output_tokens: z.number().int().nonnegative(),
  input_tokens_details: z.object({ cached_tokens: count, cache_write_tokens: count }),
});

const geminiSchema = z.object({
  promptTokenCount: count,
  cachedContentTokenCount: count,
  toolUsePromptTokenCount: count,
  candidatesTokenCount: count,
  thoughtsTokenCount: count,
});

/** Reads an answer as it passes by; never changes or holds it up. */
export interface UsageReader {
  take(chunk: Buffer): void;
  /** What was said so far; null when nothing was. */
  usage(): ModelUsage | null;
  /** Whether the answer came to its proper end. */
  isWhole(): boolean;
  /** How much of an answer came, in bytes: of a stream, without what it is wrapped in. */
  answeredBytes(): number;
}

const longestLine = 8 * 1024 * 1024;

/** A reader for an answer of this content type. */
export function createUsageReader(contentType: string): UsageReader {
  const found: Found = { usage: null, ended: false, isBatch: false };
  return /event-stream/.test(contentType) ? streamReader(found) : wholeReader(found);
}

interface Found {
  usage: ModelUsage | null;
  ended: boolean;
  isBatch: boolean;
}

const usageIn = ({ usage, isBatch }: Found): ModelUsage | null => usage && { ...usage, ...(isBatch && { isBatch }) };

function streamReader(found: Found): UsageReader {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let answeredBytes = 0;
  const line = (text: string): void => {
    if (!text.startsWith("data:")) return;
    const data = text.slice(5).trim();
    answeredBytes += wordsIn(data);
    if (data === "[DONE]") found.ended = true;
    else if (/"(usage|type|usageMetadata|finishReason|promptFeedback)"/.test(data)) readEvent(data, found);
  };
  return {
    take(chunk) {
      const lines = (rest + decoder.write(chunk)).split(/\r?\n/);
      rest = lines.pop() ?? "";
      if (rest.length > longestLine) rest = ""; // No event with a usage is that long.
      lines.forEach(line);
    },
    usage: () => usageIn(found),
    isWhole: () => found.ended,
    answeredBytes: () => answeredBytes,
  };
}

const words =
  /"(?:text|thinking|partial_json|delta|content|arguments|reasoning_content|reasoning)"\s*:\s*"((?:[^"\\]|\\.)*)"/g;

/**
 * What an event adds to an answer, in bytes, without taking it apart. Events that say it all again
 * add nothing.
 */
function wordsIn(data: string): number {
  if (/"type"\s*:\s*"response\./.test(data) && !/"type"\s*:\s*"response\.[\w.]+\.delta"/.test(data)) return 0;
  if (data.includes('"functionCall"')) return data.length;
  let sizeBytes = 0;
  for (const [, text = ""] of data.matchAll(words)) sizeBytes += Buffer.byteLength(text);
  return sizeBytes;
}

function wholeReader(found: Found): UsageReader {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  const read = (): void => {
    if (chunks.length === 0 || sizeBytes > 4 * longestLine) return;
    readEvent(Buffer.concat(chunks.splice(0)).toString("utf8"), found);
  };
  return {
    take(chunk) {
      sizeBytes += chunk.length;
      if (sizeBytes <= 4 * longestLine) chunks.push(chunk);
    },
    usage() {
      read();
      return usageIn(found);
    },
    isWhole: () => true,
    answeredBytes: () => sizeBytes,
  };
}

function readEvent(text: string, found: Found): void {
  const parsed = parseJson(text);
  // Gemini's streams are one array for those who do not ask for events.
  for (const event of Array.isArray(parsed) ? parsed : [parsed]) if (isObject(event)) readObject(event, found);
}

function readObject(event: Record<string, unknown>, found: Found): void {
  const { type } = event;
  for (const holder of [event, event.response]) {
    if (isObject(holder) && holder.service_tier === "flex") found.isBatch = true;
  }
  if (hasGeminiEnd(event)) found.ended = true;
  if ("usageMetadata" in event) found.usage = merged(found.usage, geminiUsage(event.usageMetadata));
  if (type === "message_stop" || type === "response.completed" || type === "response.incomplete") found.ended = true;
  for (const holder of [event, event.message, event.response]) {
    if (!isObject(holder) || !("usage" in holder)) continue;
    found.usage = merged(found.usage, usageOf(holder.usage));
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/**
 * Gemini's streams end with a reason, or with why there is no answer at all; nothing else tells.
 */
function hasGeminiEnd({ candidates, promptFeedback }: Record<string, unknown>): boolean {
  if (isObject(promptFeedback) && typeof promptFeedback.blockReason === "string") return true;
  return Array.isArray(candidates) && candidates.some((one) => isObject(one) && typeof one.finishReason === "string");
}

/** Thoughts are paid as output, and are not among the candidates' tokens. */
function geminiUsage(value: unknown): ModelUsage | null {
  const { data } = geminiSchema.safeParse(value);
  if (data === undefined) return null;
  return {
    inputTokens: (data.promptTokenCount ?? 0) + (data.toolUsePromptTokenCount ?? 0),
    cachedTokens: data.cachedContentTokenCount ?? 0,
    cacheWriteTokens: 0,
    outputTokens: (data.candidatesTokenCount ?? 0) + (data.thoughtsTokenCount ?? 0),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // Not for us to judge: the agent gets it as it is.
  }
}

function usageOf(value: unknown): ModelUsage | null {
  const chat = chatSchema.safeParse(value);
  if (chat.success) {
    const { prompt_tokens: inputTokens, completion_tokens: outputTokens, prompt_tokens_details: details } = chat.data;
    return {
      ...{ inputTokens, outputTokens, cachedTokens: details?.cached_tokens ?? 0 },
      cacheWriteTokens: details?.cache_write_tokens ?? 0,
    };
  }
  const responses = responsesSchema.safeParse(value);
  if (responses.success) {
    const { input_tokens: inputTokens, output_tokens: outputTokens, input_tokens_details: details } = responses.data;
    return {
      ...{ inputTokens, outputTokens, cachedTokens: details.cached_tokens ?? 0 },
      cacheWriteTokens: details.cache_write_tokens ?? 0,
    };
  }
  const anthropic = anthropicSchema.safeParse(value);
  if (!anthropic.success) return null;
  const cachedTokens = anthropic.data.cache_read_input_tokens ?? 0;
  const cacheWriteTokens = anthropic.data.cache_creation_input_tokens ?? 0;
  // What is read from and written to the cache comes on top there.
  const inputTokens = (anthropic.data.input_tokens ?? 0) + cachedTokens + cacheWriteTokens;
  const cacheWriteLongTokens = anthropic.data.cache_creation?.ephemeral_1h_input_tokens ?? 0;
  const outputTokens = anthropic.data.output_tokens ?? 0;
  return { inputTokens, cachedTokens, cacheWriteTokens, cacheWriteLongTokens, outputTokens };
}

/** Counts grow in the course of a stream; a later event may leave out what an earlier one said. */
function merged(before: ModelUsage | null, now: ModelUsage | null): ModelUsage | null {
  if (before === null || now === null) return now ?? before;
  return {
    inputTokens: Math.max(before.inputTokens, now.inputTokens),
    cachedTokens: Math.max(before.cachedTokens, now.cachedTokens),
    cacheWriteTokens: Math.max(before.cacheWriteTokens, now.cacheWriteTokens),
    cacheWriteLongTokens: Math.max(before.cacheWriteLongTokens ?? 0, now.cacheWriteLongTokens ?? 0),
    outputTokens: Math.max(before.outputTokens, now.outputTokens),
  };
}
