import { StringDecoder } from "node:string_decoder";
import { z } from "zod";
import type { CallEnding, ModelUsage } from "../../domain/models.ts";

// Reads usage in the four formats of the providers: Anthropic messages, OpenAI chat completions,
// OpenAI responses, Gemini; from a whole answer or from the events of a stream.

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

export type ReadEnding = Extract<CallEnding, "whole" | "limit" | "broken" | "unreadable">;

/** Whether the model finished, even if at its output limit. */
export const isComplete = (ending: ReadEnding): boolean => ending === "whole" || ending === "limit";

/** Reads an answer as it passes, without changing or delaying it. */
export interface UsageReader {
  take(chunk: Buffer): void;
  /** The usage reported so far; null if none. */
  usage(): ModelUsage | null;
  /** How the answer ended, if this was all of it. */
  ending(): ReadEnding;
  /** Bytes of the answer so far; for a stream, without its framing. */
  answeredBytes(): number;
}

const maxLine = 8 * 1024 * 1024;

/** Creates a reader for an answer of this content type. */
export function createUsageReader(contentType: string): UsageReader {
  const reading: Found = { usage: null, ended: false, isLimited: false, isAnswer: false, isBatch: false };
  return /event-stream/.test(contentType) ? streamReader(reading) : wholeReader(reading);
}

interface Found {
  usage: ModelUsage | null;
  ended: boolean;
  /** It was cut at its output limit. */
  isLimited: boolean;
  /** It is an answer of a model, whole or in part. */
  isAnswer: boolean;
  isBatch: boolean;
}

const endOf = ({ isLimited }: Found) => (isLimited ? "limit" : "whole");

/** Events that say something about usage or the end. */
const readable = /"(usage|type|usageMetadata|finishReason|promptFeedback)"|"finish_reason"\s*:\s*"/;

const usageIn = ({ usage, isBatch }: Found): ModelUsage | null => usage && { ...usage, ...(isBatch && { isBatch }) };

function streamReader(reading: Found): UsageReader {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let answeredBytes = 0;
  const line = (text: string): void => {
    if (!text.startsWith("data:")) return;
    const data = text.slice(5).trim();
    answeredBytes += answerBytesIn(data);
    if (data === "[DONE]") reading.ended = true;
    else if (readable.test(data)) readEvent(data, reading);
  };
  return {
    take(chunk) {
      const lines = (rest + decoder.write(chunk)).split(/\r?\n/);
      rest = lines.pop() ?? "";
      if (rest.length > maxLine) rest = ""; // no event with usage is that long
      lines.forEach(line);
    },
    usage: () => usageIn(reading),
    ending: () => (reading.ended ? endOf(reading) : "broken"),
    answeredBytes: () => answeredBytes,
  };
}

const words =
  /"(?:text|thinking|partial_json|delta|content|arguments|reasoning_content|reasoning)"\s*:\s*"((?:[^"\\]|\\.)*)"/g;

/**
 * Counts the bytes that an event adds to an answer, without parsing it. Events that repeat
 * everything add nothing.
 */
function answerBytesIn(data: string): number {
  if (/"type"\s*:\s*"response\./.test(data) && !/"type"\s*:\s*"response\.[\w.]+\.delta"/.test(data)) return 0;
  if (data.includes('"functionCall"')) return data.length;
  let sizeBytes = 0;
  for (const [, text = ""] of data.matchAll(words)) sizeBytes += Buffer.byteLength(text);
  return sizeBytes;
}

function wholeReader(reading: Found): UsageReader {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  let readBytes = 0;
  const read = (): void => {
    if (sizeBytes === readBytes || sizeBytes > 4 * maxLine) return;
    readBytes = sizeBytes;
    readEvent(Buffer.concat(chunks).toString("utf8"), reading);
  };
  return {
    take(chunk) {
      sizeBytes += chunk.length;
      if (sizeBytes <= 4 * maxLine) chunks.push(chunk);
    },
    usage() {
      read();
      return usageIn(reading);
    },
    ending() {
      read();
      return reading.isAnswer ? endOf(reading) : "unreadable";
    },
    answeredBytes: () => sizeBytes,
  };
}

function readEvent(text: string, reading: Found): void {
  const parsed = parseJson(text);
  // Gemini streams one array to clients that do not request events.
  for (const event of Array.isArray(parsed) ? parsed : [parsed]) if (isObject(event)) readObject(event, reading);
}

function readObject(event: Record<string, unknown>, reading: Found): void {
  const { type } = event;
  for (const holder of [event, event.response]) {
    if (isObject(holder) && holder.service_tier === "flex") reading.isBatch = true;
  }
  if (isAnswer(event)) reading.isAnswer = true;
  if (isLimited(event)) reading.isLimited = true;
  if (hasGeminiEnd(event)) reading.ended = true;
  if ("usageMetadata" in event) reading.usage = mergeUsage(reading.usage, geminiUsage(event.usageMetadata));
  if (type === "message_stop" || type === "response.completed" || type === "response.incomplete") reading.ended = true;
  for (const holder of [event, event.message, event.response]) {
    if (!isObject(holder) || !("usage" in holder)) continue;
    reading.usage = mergeUsage(reading.usage, usageOf(holder.usage));
  }
}

/** Recognizes a whole answer of any of the four formats. */
const isAnswer = ({ content, choices, output, candidates, ...event }: Record<string, unknown>): boolean =>
  [content, choices, output, candidates].some(Array.isArray) ||
  [event.promptFeedback, event.usage, event.usageMetadata].some(isObject);

const limitReasons = new Set(["max_tokens", "model_context_window_exceeded", "length", "MAX_TOKENS"]);

/** Recognizes an answer that was cut at its output limit, in any of the four formats. */
function isLimited({ stop_reason, delta, choices, candidates, response, ...event }: Record<string, unknown>): boolean {
  const reasons = [
    stop_reason,
    isObject(delta) ? delta.stop_reason : null,
    ...objectsIn(choices).map(({ finish_reason }) => finish_reason),
    ...objectsIn(candidates).map(({ finishReason }) => finishReason),
  ];
  const { status, incomplete_details: details } = isObject(response) ? response : event;
  const isCut = status === "incomplete" && isObject(details) && details.reason === "max_output_tokens";
  return isCut || reasons.some((reason) => limitReasons.has(String(reason)));
}

const objectsIn = (list: unknown): Record<string, unknown>[] => (Array.isArray(list) ? list.filter(isObject) : []);

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** Whether a Gemini stream is complete: its only mark is a finish reason or a block reason. */
function hasGeminiEnd({ candidates, promptFeedback }: Record<string, unknown>): boolean {
  if (isObject(promptFeedback) && typeof promptFeedback.blockReason === "string") return true;
  return Array.isArray(candidates) && candidates.some((one) => isObject(one) && typeof one.finishReason === "string");
}

/** Reads Gemini's usage. Thoughts are billed as output, but not counted in candidates' tokens. */
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
    return null; // the agent gets it unchanged
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
  // Here, cache reads and writes come on top of the input.
  const inputTokens = (anthropic.data.input_tokens ?? 0) + cachedTokens + cacheWriteTokens;
  const cacheWriteLongTokens = anthropic.data.cache_creation?.ephemeral_1h_input_tokens ?? 0;
  const outputTokens = anthropic.data.output_tokens ?? 0;
  return { inputTokens, cachedTokens, cacheWriteTokens, cacheWriteLongTokens, outputTokens };
}

/** Merges two reports, because counts grow during a stream and later events may omit fields. */
function mergeUsage(before: ModelUsage | null, now: ModelUsage | null): ModelUsage | null {
  if (before === null || now === null) return now ?? before;
  return {
    inputTokens: Math.max(before.inputTokens, now.inputTokens),
    cachedTokens: Math.max(before.cachedTokens, now.cachedTokens),
    cacheWriteTokens: Math.max(before.cacheWriteTokens, now.cacheWriteTokens),
    cacheWriteLongTokens: Math.max(before.cacheWriteLongTokens ?? 0, now.cacheWriteLongTokens ?? 0),
    outputTokens: Math.max(before.outputTokens, now.outputTokens),
  };
}
