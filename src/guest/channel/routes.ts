// Answers the requests of the protocol (protocol.ts).
import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { packFolder, unpackFolder } from "../archive/archive.ts";
import { GuestFault } from "../faults.ts";
import { type Files, type OpenFile, partsOf, readWhole } from "../files/files.ts";
import { waitUntil } from "../jobs/changes.ts";
import { executeCommand } from "../jobs/command.ts";
import type { GuestJob } from "../jobs/job.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { readOutput } from "../jobs/output.ts";
import type { PortSource } from "../jobs/ports.ts";
import type { GuestParts } from "../parts.ts";
import type { GuestHealth } from "../protocol.ts";
import {
  parseBatch,
  parseCancel,
  parseExecSpec,
  parseJobSpec,
  parseKey,
  parseNumber,
  parsePortCount,
} from "../validate.ts";
import { performBatch } from "./batch.ts";
import { type Exchange, readBody, readJson, requiredParameter, sendEmpty, sendJson } from "./http.ts";

const maxWaitMs = 5 * 60_000;
const maxReadBytes = 4 * 1024 * 1024;
const maxStdinBytes = 16 * 1024 * 1024;
/** Files up to this size are sent in one piece, because a stream costs more. */
const wholeBytes = 64 * 1024;

export interface RouteContext {
  readonly parts: GuestParts;
  readonly files: Files;
  readonly jobs: Jobs;
  readonly ports: PortSource;
  readonly health: () => GuestHealth;
  /** Starts shutting the guest down. */
  readonly shutdown: () => void;
}

/** Answers one request. Throws the fault for `sendFault` to send. */
export async function answerRequest(
  context: RouteContext,
  exchange: Exchange,
  segments: readonly string[],
): Promise<void> {
  const { request, response, query } = exchange;
  const [version, subject, key, verb] = segments;
  const name =
    version === "v1"
      ? `${request.method} ${subject ?? ""}${key === undefined ? "" : "/KEY"}${verb === undefined ? "" : `/${verb}`}`
      : "";
  switch (segments.length > 4 ? "" : name) {
    case "GET health":
      return sendJson(response, 200, context.health());
    case "GET files":
      return readFile(context, exchange);
    case "PUT files":
      return writeFile(context, exchange);
    case "DELETE files":
      await context.files.remove(requiredParameter(query, "path"), query.get("recursive") === "1");
      return sendEmpty(response);
    case "GET stat":
      return sendJson(response, 200, await context.files.stat(requiredParameter(query, "path")));
    case "GET list":
      return sendJson(response, 200, await context.files.list(requiredParameter(query, "path")));
    case "POST exec":
      return sendJson(
        response,
        200,
        await executeCommand(context.parts, parseExecSpec(await readJson(request)), exchange.signal),
      );
    case "GET archive":
      return packFolder(context.parts, requiredParameter(query, "path"), response);
    case "PUT archive":
      await unpackFolder(context.parts, requiredParameter(query, "path"), request);
      return sendEmpty(response);
    case "POST ports":
      return sendJson(response, 200, { ports: await context.ports.allocate(parsePortCount(await readJson(request))) });
    case "POST batch":
      return sendJson(response, 200, { answers: await performBatch(context, parseBatch(await readJson(request))) });
    case "POST shutdown":
      sendJson(response, 202, {});
      return context.shutdown();
    case "GET jobs":
      return sendJson(response, 200, context.jobs.list());
    default:
      return answerJobRequest(context, exchange, name, checkedKey(key));
  }
}

async function answerJobRequest({ jobs }: RouteContext, exchange: Exchange, name: string, key: string): Promise<void> {
  const { request, response } = exchange;
  switch (name) {
    case "PUT jobs/KEY":
      return sendJson(response, 200, (await jobs.start(key, parseJobSpec(await readJson(request)))).state());
    case "GET jobs/KEY":
      return sendState(await knownJob(jobs, key), exchange);
    case "DELETE jobs/KEY":
      await jobs.forget(key);
      return sendEmpty(response);
    case "GET jobs/KEY/output":
      return sendOutput(await knownJob(jobs, key), exchange);
    case "POST jobs/KEY/stdin":
      return takeStdin(await knownJob(jobs, key), exchange);
    case "POST jobs/KEY/cancel":
      return sendJson(response, 200, (await jobs.cancel(key, parseCancel(await readJson(request)))).state());
    default:
      throw new GuestFault(404, "no-route", `${request.method} ${request.url} is not part of the protocol`);
  }
}

function checkedKey(key: string | undefined): string {
  if (key === undefined) throw new GuestFault(404, "no-route", "not part of the protocol");
  return parseKey(key);
}

async function knownJob(jobs: Jobs, key: string): Promise<GuestJob> {
  const job = await jobs.find(key);
  if (job === null) throw new GuestFault(404, "not-found", `there is no job ${key}`);
  return job;
}

async function readFile({ files }: RouteContext, { response, query }: Exchange): Promise<void> {
  const maxBytes = parseNumber(query.get("max"), "max", Number.MAX_SAFE_INTEGER);
  const file = await files.read(requiredParameter(query, "path"), maxBytes);
  const { sizeBytes, etag } = file;
  const head = { "content-type": "application/octet-stream", "content-length": sizeBytes, etag };
  // Sends no more bytes than announced even if the file grows; if it shrinks, the response is cut
  // off.
  if (sizeBytes > wholeBytes) {
    response.writeHead(200, head);
    return sendParts(file, response);
  }
  const bytes = await readWhole(file);
  if (bytes === null) return void response.destroy();
  response.writeHead(200, head);
  response.end(bytes);
}

async function sendParts(file: OpenFile, response: ServerResponse): Promise<void> {
  let sent = 0;
  const limitedBytes = async function* (): AsyncGenerator<Buffer> {
    for await (const part of partsOf(file)) {
      sent += part.length;
      yield part;
    }
    if (sent < file.sizeBytes) throw new GuestFault(409, "changed", "the file was truncated while it was read");
  };
  try {
    await pipeline(Readable.from(limitedBytes(), { objectMode: false }), response);
  } finally {
    file.close();
  }
}

async function writeFile({ files }: RouteContext, { request, response, query }: Exchange): Promise<void> {
  const octal = query.get("mode");
  if (octal !== null && !/^[0-7]{1,4}$/.test(octal)) throw new GuestFault(400, "bad-request", "mode must be octal");
  const mode = octal === null ? null : Number.parseInt(octal, 8) & 0o777;
  const ifMatch = request.headers["if-match"] ?? null;
  const mustBeNew = request.headers["if-none-match"] === "*";
  const etag = await files.write(requiredParameter(query, "path"), request, { mode, ifMatch, mustBeNew });
  sendEmpty(response, { etag });
}

async function sendState(job: GuestJob, { response, query, signal }: Exchange): Promise<void> {
  const revision = parseNumber(query.get("revision"), "revision", -1);
  const waitMs = Math.min(parseNumber(query.get("waitMs"), "waitMs", 0), maxWaitMs);
  const offset = parseNumber(query.get("offset"), "offset", Number.POSITIVE_INFINITY);
  const hasNews = (): boolean => {
    const state = job.state();
    return state.revision > revision || state.outputBytes > offset || state.status !== "running";
  };
  await waitUntil(job.changes, hasNews, { waitMs, signal });
  sendJson(response, 200, job.state());
}

async function sendOutput(job: GuestJob, { response, query, signal }: Exchange): Promise<void> {
  const offset = parseNumber(query.get("offset"), "offset", 0);
  const limitBytes = Math.min(parseNumber(query.get("limit"), "limit", maxReadBytes), maxReadBytes);
  const waitMs = Math.min(parseNumber(query.get("waitMs"), "waitMs", 0), maxWaitMs);
  const hasNews = (): boolean => job.state().outputBytes > offset || job.state().status !== "running";
  await waitUntil(job.changes, hasNews, { waitMs, signal });
  const state = job.state();
  const wanted = Math.max(0, Math.min(limitBytes, state.outputBytes - offset));
  const bytes = wanted === 0 ? Buffer.alloc(0) : await readOutput(job.outputPath, offset, wanted);
  const nextOffset = offset + bytes.length;
  const isEnded = state.status !== "running" && nextOffset >= state.outputBytes;
  response.writeHead(200, {
    "content-type": "application/octet-stream",
    "content-length": bytes.length,
    "x-next-offset": String(nextOffset),
    "x-output-ended": isEnded ? "1" : "0",
  });
  response.end(bytes);
}

async function takeStdin(job: GuestJob, { request, response, query }: Exchange): Promise<void> {
  const seq = parseNumber(requiredParameter(query, "seq"), "seq", 0);
  const bytes = await readBody(request, maxStdinBytes);
  if (job.input === null || job.state().status !== "running") {
    throw new GuestFault(409, "ended", "the job has ended and takes no input");
  }
  await job.input.accept(seq, bytes, query.get("end") === "1");
  sendEmpty(response);
}
