// An answer on its way back to the agent.
//
// P2. An answer passes byte by byte; it is never held back to be read.
import type { IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "../domain/errors.ts";
import type { ModelUsage } from "../domain/models.ts";
import type { CassetteAnswer, ModelProvider, Settlement } from "./port.ts";
import { type Call, headerOf } from "./provider-call.ts";
import { createUsageReader, type UsageReader } from "./usage.ts";

const answeredHeaders = ["content-type", "request-id", "x-request-id", "retry-after", "openai-processing-ms"];

/** Passes an answer on as it comes, reading along what it took. */
export async function relay(
  { response, signal, provider }: Call,
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
  let passedBytes = 0;
  response.writeHead(status, headers);
  try {
    for await (const chunk of status >= 400 ? covered(reply, provider) : (reply as AsyncIterable<Buffer>)) {
      reader.take(chunk);
      passedBytes += chunk.length;
      if (keep !== null) kept.push(chunk);
      if (!response.write(chunk)) await drained(response, signal);
    }
  } catch (error) {
    const isRefusal = status >= 400;
    const usage = isRefusal ? reader.usage() : cutUsage(reader, passedBytes);
    return { status: isRefusal ? "failed" : "cut", usage, httpStatus: status, error: messageOf(error) };
  }
  if (keep !== null) await keep({ status, headers, body: Buffer.concat(kept).toString("utf8") });
  const usage = reader.usage();
  if (status >= 400) return { status: "failed", usage, httpStatus: status, error: `the provider answered ${status}` };
  if (reader.isWhole()) return { status: "done", usage, httpStatus: status, error: null };
  return { status: "cut", usage: cutUsage(reader, passedBytes), httpStatus: status, error: null };
}

/**
 * Providers say at a stream's end what they answered: of one that was cut at least what has passed counts, or whoever hangs
 * up early would answer for nothing. A token is hardly ever less than two bytes of it.
 */
function cutUsage(reader: UsageReader, passedBytes: number): ModelUsage | null {
  const usage = reader.usage();
  return usage && { ...usage, outputTokens: Math.max(usage.outputTokens, Math.ceil(passedBytes / 2)) };
}

const longestErrorBytes = 1024 * 1024;

/** An error's body, whole, without our credentials. */
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

export function replay({ response }: Call, { status, headers, body }: CassetteAnswer): Settlement {
  const reader = createUsageReader(headers["content-type"] ?? "");
  reader.take(Buffer.from(body));
  response.writeHead(status, headers).write(body);
  return { status: status >= 400 ? "failed" : "done", usage: reader.usage(), httpStatus: status, error: null };
}

const drained = (response: ServerResponse, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    response.once("drain", () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
  });
