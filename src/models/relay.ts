// Relays answers to agents.
//
// P2. An answer passes byte by byte; it is never held back to be read.
// P7. Usage that a provider reported is counted, even if its agent hung up before the report;
// otherwise we estimate from the bytes that passed.
import type { IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../domain/errors.ts";
import type { ModelUsage } from "../domain/models.ts";
import { likelyTokens } from "./measure.ts";
import type { CassetteAnswer, ModelProvider, Settlement } from "./port.ts";
import { type Call, headerOf } from "./provider-call.ts";
import { createUsageReader, type UsageReader } from "./usage.ts";
import { createUsageFilter } from "./usage-filter.ts";

const answeredHeaders = ["content-type", "request-id", "x-request-id", "retry-after", "openai-processing-ms"];

/** Relays an answer as it arrives and reads its usage. */
export async function relay(
  call: Call,
  reply: IncomingMessage,
  keep: ((answer: CassetteAnswer) => Promise<void> | undefined) | null,
): Promise<Settlement> {
  const status = reply.statusCode ?? 502;
  const headers = Object.fromEntries(
    answeredHeaders.flatMap((name) => {
      const value = headerOf(reply, name);
      return value === null ? [] : [[name, value]];
    }),
  );
  const reader = createUsageReader(headers["content-type"] ?? "");
  const kept: Buffer[] = [];
  const pass = writer(call, /event-stream/.test(headers["content-type"] ?? ""));
  call.response.writeHead(status, headers);
  let fault: string | null = null;
  try {
    for await (const chunk of status >= 400 ? covered(reply, call.provider) : (reply as AsyncIterable<Buffer>)) {
      reader.take(chunk);
      if (keep !== null) kept.push(chunk);
      await pass(chunk);
    }
  } catch (error) {
    fault = messageOf(error);
  }
  if (fault === null && keep !== null) await keep({ status, headers, body: Buffer.concat(kept).toString("utf8") });
  return settlementOf(call, reader, { status, fault });
}

function settlementOf(
  { gone, likelyInputTokens }: Call,
  reader: UsageReader,
  { status, fault }: { status: number; fault: string | null },
): Settlement {
  const usage = reader.usage();
  if (status >= 400) {
    const error = fault ?? `the provider answered ${status}`;
    return { status: "failed", usage, isEstimated: false, httpStatus: status, error };
  }
  const isWhole = fault === null && reader.isWhole();
  const error = fault ?? (gone.aborted ? "the agent hung up" : null);
  const outcome = { status: isWhole && !gone.aborted ? "done" : "cut", httpStatus: status, error } as const;
  if (isWhole && usage !== null) return { ...outcome, usage, isEstimated: false };
  return { ...outcome, usage: estimated(usage, reader, likelyInputTokens), isEstimated: true };
}

/**
 * Providers report usage at the end of an answer; without a report, the bytes that passed count.
 */
function estimated(said: ModelUsage | null, reader: UsageReader, likelyInputTokens: number): ModelUsage {
  const outputTokens = likelyTokens(reader.answeredBytes());
  if (said !== null) return { ...said, outputTokens: Math.max(said.outputTokens, outputTokens) };
  return { inputTokens: likelyInputTokens, cachedTokens: 0, cacheWriteTokens: 0, outputTokens };
}

/**
 * Writes to the agent as fast as it reads. After the agent hung up, only reads the rest for its
 * usage.
 */
function writer({ response, gone, hidesUsage }: Call, isStream: boolean): (chunk: Buffer) => Promise<void> {
  const filter = hidesUsage && isStream ? createUsageFilter() : null;
  return async (chunk) => {
    if (gone.aborted) return;
    const passed = filter === null ? chunk : filter(chunk);
    if (passed.length > 0 && !response.write(passed)) await drained(response, gone);
  };
}

const longestErrorBytes = 1024 * 1024;

/** Returns an error's whole body without our credentials. */
async function* covered(reply: IncomingMessage, { headers }: ModelProvider): AsyncGenerator<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes <= longestErrorBytes) chunks.push(chunk);
  }
  const values = Object.values(headers).map((value) => value.replace(/^Bearer /i, ""));
  const text = Buffer.concat(chunks).toString("utf8");
  yield Buffer.from(
    values.filter((value) => value.length >= 8).reduce((all, value) => all.replaceAll(value, "[our key]"), text),
  );
}

export function replay(call: Call, { status, headers, body }: CassetteAnswer): Settlement {
  const reader = createUsageReader(headers["content-type"] ?? "");
  const chunk = Buffer.from(body);
  reader.take(chunk);
  call.response.writeHead(status, headers);
  const isStream = /event-stream/.test(headers["content-type"] ?? "");
  call.response.write(call.hidesUsage && isStream ? createUsageFilter()(chunk) : chunk);
  return { ...settlementOf(call, reader, { status, fault: null }), status: status >= 400 ? "failed" : "done" };
}

/** Resolves when more can be written or the reader is gone. */
const drained = (response: ServerResponse, gone: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const over = (): void => {
      gone.removeEventListener("abort", over);
      response.off("drain", over);
      resolve();
    };
    if (gone.aborted) return over();
    gone.addEventListener("abort", over);
    response.once("drain", over);
  });
