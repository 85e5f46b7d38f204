// Relays answers to agents.
//
// MP2. An answer passes byte by byte; it is never held back to be read.
// MP7. Usage that a provider reported is counted, even if its agent hung up before the report;
// otherwise we estimate from the bytes that passed.
import type { IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../../domain/errors.ts";
import type { ModelUsage } from "../../domain/models.ts";
import { saysOverflow } from "../../domain/overflow.ts";
import type { CassetteAnswer, ModelProvider, Settlement } from "../port.ts";
import { likelyTokens } from "./measure.ts";
import { headerOf, type ProviderCall } from "./provider-call.ts";
import { createUsageReader, isComplete, type UsageReader } from "./usage.ts";
import { createUsageFilter } from "./usage-filter.ts";

const answeredHeaders = ["content-type", "request-id", "x-request-id", "retry-after", "openai-processing-ms"];

/** Relays an answer as it arrives and reads its usage. */
export async function relay(
  call: ProviderCall,
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
  const keptChunks: Buffer[] = [];
  const isError = status >= 400;
  const keepsBody = keep !== null || isError;
  const pass = createWriter(call, /event-stream/.test(headers["content-type"] ?? ""));
  call.response.writeHead(status, headers);
  let fault: string | null = null;
  call.readEnding = () => reader.ending();
  try {
    for await (const chunk of isError ? maskCredentials(reply, call.provider) : (reply as AsyncIterable<Buffer>)) {
      reader.take(chunk);
      if (keepsBody) keptChunks.push(chunk);
      await pass(chunk);
    }
  } catch (error) {
    fault = messageOf(error);
  }
  const body = Buffer.concat(keptChunks).toString("utf8");
  if (fault === null && keep !== null) await keep({ status, headers, body });
  return settlementOf(call, reader, { status, fault: fault ?? (isError ? errorOf(status, body) : null) });
}

/** The settlement's error for a call whose agent did not wait for the answer. */
export const hungUp = "the agent hung up";

/** The settlement's error for a conversation that is longer than the model's window. */
export const overflowError = "the conversation is longer than the model's window";

const errorOf = (status: number, body: string): string =>
  (status === 400 || status === 413) && saysOverflow(body) ? overflowError : `it answered ${status}`;

function settlementOf(
  { api, gone, heardEnding, likelyInputTokens }: ProviderCall,
  reader: UsageReader,
  { status, fault }: { status: number; fault: string | null },
): Settlement {
  const usage = reader.usage();
  if (status >= 400)
    return { status: "failed", usage, isEstimated: false, httpStatus: status, error: fault, ending: "error" };
  // The answers of free calls have other forms.
  const read = api.outputLimit === null ? "whole" : reader.ending();
  const ending = gone.aborted && !isComplete(heardEnding ?? read) ? "left" : read;
  const isWhole = fault === null && isComplete(read);
  const error = gone.aborted ? hungUp : fault;
  const outcome = { status: isWhole && !gone.aborted ? "done" : "cut", httpStatus: status, error, ending } as const;
  if (isWhole && usage !== null) return { ...outcome, usage, isEstimated: false };
  return { ...outcome, usage: estimateUsage(usage, reader, likelyInputTokens), isEstimated: true };
}

/** Estimates usage from the bytes that passed, because providers report it only at the end. */
function estimateUsage(reported: ModelUsage | null, reader: UsageReader, likelyInputTokens: number): ModelUsage {
  const outputTokens = likelyTokens(reader.answeredBytes());
  if (reported !== null) return { ...reported, outputTokens: Math.max(reported.outputTokens, outputTokens) };
  return { inputTokens: likelyInputTokens, cachedTokens: 0, cacheWriteTokens: 0, outputTokens };
}

/** Returns a writer to the agent that waits for slow readers; after a hang-up it drops the data. */
function createWriter(
  { response, gone, hidesUsage }: ProviderCall,
  isStream: boolean,
): (chunk: Buffer) => Promise<void> {
  const filter = hidesUsage && isStream ? createUsageFilter() : null;
  return async (chunk) => {
    if (gone.aborted) return;
    const passed = filter === null ? chunk : filter(chunk);
    if (passed.length > 0 && !response.write(passed)) await waitForDrain(response, gone);
  };
}

const maxErrorBytes = 1024 * 1024;

/** Returns an error's whole body without our credentials. */
async function* maskCredentials(reply: IncomingMessage, { headers }: ModelProvider): AsyncGenerator<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes <= maxErrorBytes) chunks.push(chunk);
  }
  const values = Object.values(headers).map((value) => value.replace(/^Bearer /i, ""));
  const text = Buffer.concat(chunks).toString("utf8");
  yield Buffer.from(
    values.filter((value) => value.length >= 8).reduce((all, value) => all.replaceAll(value, "[our key]"), text),
  );
}

/** Answers with a recording. */
export function replay(call: ProviderCall, { status, headers, body }: CassetteAnswer): Settlement {
  const reader = createUsageReader(headers["content-type"] ?? "");
  const chunk = Buffer.from(body);
  reader.take(chunk);
  call.readEnding = () => reader.ending();
  call.response.writeHead(status, headers);
  const isStream = /event-stream/.test(headers["content-type"] ?? "");
  call.response.write(call.hidesUsage && isStream ? createUsageFilter()(chunk) : chunk);
  const fault = status >= 400 ? errorOf(status, body) : null;
  return { ...settlementOf(call, reader, { status, fault }), status: fault === null ? "done" : "failed" };
}

/** Resolves when more can be written or the reader is gone. */
const waitForDrain = (response: ServerResponse, gone: AbortSignal): Promise<void> =>
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
