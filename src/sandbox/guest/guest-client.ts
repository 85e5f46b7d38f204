import { join } from "node:path";
import type { Duplex, Readable } from "node:stream";
import { z } from "zod";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { type BatchAnswer, type BatchCall, largestBatchReadBytes } from "../../guest/protocol.ts";
import type { ExecSpec, GuestClient, JobState } from "../port.ts";
import { type Batching, createBatching } from "./guest-batch.ts";
import {
  type Connect,
  createGuestConnection,
  type GuestCall,
  type GuestConnection,
  type GuestReply,
  readReply,
} from "./guest-connection.ts";
import {
  batchSchema,
  execResultSchema,
  fileStatSchema,
  fileStatsSchema,
  healthSchema,
  jobStateSchema,
  jobStatesSchema,
  portsSchema,
} from "./guest-schemas.ts";
import { connectToSocket } from "./guest-socket.ts";

const deadlineMs = 30_000;
const streamDeadlineMs = 120_000;
const answerBytes = 64 * 1024 * 1024;
const fileBytes = 16 * 1024 * 1024;
/** Larger files travel uncompressed. */
const largestBatchedText = 64 * 1024;

export interface GuestClientOptions {
  /**
   * How to reach the guest: a byte stream, the path of its unix socket (of any length), or that
   * path in two parts.
   */
  readonly connect?: Connect | string;
  readonly socketFolder?: string;
  /** The socket's name in `socketFolder`; default `guest.sock`. */
  readonly socketName?: string;
  /** The sandbox's name, for messages; default the socket. */
  readonly name?: string;
}

/**
 * Creates a client of one guest. It keeps connections while in use and needs no closing, because
 * idle ones keep no process alive.
 */
export function createGuestClient(options: GuestClientOptions): GuestClient {
  const { socketFolder = ".", socketName = "guest.sock" } = options;
  const place = options.connect ?? join(socketFolder, socketName);
  const name = options.name ?? (typeof place === "string" ? place : "the sandbox");
  const connection = createGuestConnection(typeof place === "string" ? () => connectToSocket(place) : place, name);
  const batching = createBatching(name, (lane, calls) => askTogether(connection, lane, calls));
  return {
    ...fileCalls(connection, batching),
    ...jobCalls(connection, batching),
    ...otherCalls(connection, batching),
  };
}

/** Returns null when the guest is of an earlier version, without batches. */
async function askTogether(
  connection: GuestConnection,
  lane: "quick" | "tidy",
  calls: readonly BatchCall[],
): Promise<readonly BatchAnswer[] | null> {
  const call = { method: "POST" as const, path: at("batch"), body: JSON.stringify({ calls }) };
  const repeatable = calls.every(({ call }) => call !== "ports");
  const limitMs = lane === "quick" ? deadlineMs : streamDeadlineMs;
  const reply = await connection.call({ ...call, repeatable, deadlineMs: limitMs }, [404]);
  const body = await readReply(reply, answerBytes);
  return reply.status === 404 ? null : parsed(call, body, batchSchema).answers;
}

type FileCalls = Pick<GuestClient, "readFile" | "writeFile" | "remove" | "stat" | "list" | "pack" | "unpack">;

function fileCalls(connection: GuestConnection, { together }: Batching): FileCalls {
  return {
    readFile: async (path, { maxBytes = fileBytes } = {}) => {
      const alone = async (): Promise<Buffer> =>
        readReply(await ask(connection, { path: at("files", { path, max: maxBytes }) }), maxBytes);
      if (maxBytes > largestBatchReadBytes) return alone().catch(nullWhenNotFound);
      const read = (value: unknown): Buffer => Buffer.from(checked("read", value, z.string()), "base64");
      return together({ lane: "quick", call: { call: "read", path, maxBytes }, alone, read }).catch(nullWhenNotFound);
    },
    writeFile: async (path, data, { mode, ifMatch } = {}) => {
      const query = at("files", { path, ...(mode === undefined ? {} : { mode: mode.toString(8) }) });
      const alone = () => done(connection, { method: "PUT", path: query, body: data, headers: condition(ifMatch) });
      const isPlain = mode === undefined && ifMatch === undefined;
      if (!isPlain || typeof data !== "string" || data.length > largestBatchedText) return alone();
      return together({ lane: "quick", call: { call: "write", path, text: data }, alone, read: nothing });
    },
    remove: (path, { recursive = false } = {}) =>
      together({
        lane: "tidy",
        call: { call: "remove", path, recursive },
        alone: () =>
          done(connection, {
            method: "DELETE",
            path: at("files", { path, recursive: recursive ? 1 : 0 }),
            deadlineMs: streamDeadlineMs,
          }),
        read: nothing,
      }),
    stat: (path) =>
      together({
        lane: "quick",
        call: { call: "stat", path },
        alone: () => answer(connection, { path: at("stat", { path }) }, fileStatSchema),
        read: (value) => checked("stat", value, fileStatSchema),
      }).catch(nullWhenNotFound),
    list: (path) => answer(connection, { path: at("list", { path }) }, fileStatsSchema),
    pack: async (path) => (await ask(connection, { path: at("archive", { path }), deadlineMs: streamDeadlineMs })).body,
    unpack: (path, tar: Readable) =>
      done(connection, {
        method: "PUT",
        path: at("archive", { path }),
        body: tar,
        deadlineMs: streamDeadlineMs,
        repeatable: false,
      }),
  };
}

type JobCalls = Pick<
  GuestClient,
  "startJob" | "findJob" | "listJobs" | "readOutput" | "writeStdin" | "cancelJob" | "forgetJob"
>;

function jobCalls(connection: GuestConnection, { together }: Batching): JobCalls {
  const job = (key: string, rest: string, query: Query = {}): string =>
    at(`jobs/${encodeURIComponent(key)}${rest}`, query);
  const state = async (key: string, call: Partial<GuestCall> & { path: string }): Promise<JobState> => {
    const found = await answer(connection, call, jobStateSchema);
    if (found.key !== key)
      throw new WavesmithError("guest-protocol", `the guest answered for job ${found.key}, not ${key}`);
    return found;
  };
  return {
    startJob: (key, spec) => state(key, { method: "PUT", path: job(key, ""), body: JSON.stringify(spec) }),
    findJob: (key, wait) => {
      const { signal: _, ...query } = wait ?? {};
      const call = { path: job(key, "", query), deadlineMs: deadlineMs + (wait?.waitMs ?? 0), ...signalOf(wait) };
      return state(key, call).catch(nullWhenNotFound);
    },
    listJobs: () => answer(connection, { path: at("jobs") }, jobStatesSchema),
    readOutput: async (key, { offset, limitBytes, waitMs = 0, signal }) => {
      const path = job(key, "/output", { offset, limit: limitBytes, waitMs });
      const reply = await ask(connection, { path, deadlineMs: deadlineMs + waitMs, ...signalOf({ signal }) });
      const data = await readReply(reply, limitBytes);
      return { data, ...outputPlace(reply, offset + data.length) };
    },
    writeStdin: (key, seq, data, { end = false } = {}) =>
      done(connection, { method: "POST", path: job(key, "/stdin", { seq, end: end ? 1 : 0 }), body: data }),
    cancelJob: (key, { reason, graceMs }) => {
      const body = JSON.stringify({ reason, graceMs });
      return state(key, { method: "POST", path: job(key, "/cancel"), body, deadlineMs: deadlineMs + graceMs });
    },
    forgetJob: (key) =>
      together({
        lane: "tidy",
        call: { call: "forget", key },
        alone: () => done(connection, { method: "DELETE", path: job(key, "") }),
        read: nothing,
      }),
  };
}

type OtherCalls = Pick<GuestClient, "health" | "exec" | "allocatePorts" | "tunnel" | "shutdown">;

function otherCalls(connection: GuestConnection, { together }: Batching): OtherCalls {
  return {
    health: (signal) =>
      answer(connection, { path: at("health"), deadlineMs: 10_000, ...signalOf({ signal }) }, healthSchema),
    exec: (spec: ExecSpec) => {
      const call = { method: "POST" as const, path: at("exec"), body: JSON.stringify(spec), repeatable: false };
      // In JSON, one byte of output may take six; both streams have their cap.
      const maxBytes = 1024 * 1024 + 12 * spec.maxBytes;
      return answer(connection, { ...call, deadlineMs: deadlineMs + spec.timeoutMs }, execResultSchema, maxBytes);
    },
    allocatePorts: async (count) => {
      const call = { method: "POST" as const, path: at("ports"), body: JSON.stringify({ count }) };
      const { ports } = await together({
        lane: "quick",
        call: { call: "ports", count },
        alone: () => answer(connection, call, portsSchema),
        read: (value) => checked("ports", value, portsSchema),
      });
      if (ports.length !== count)
        throw new WavesmithError("guest-protocol", `the guest gave ${ports.length} ports, not ${count}`);
      return ports;
    },
    tunnel: (port): Promise<Duplex> => connection.upgrade(at("tunnel", { port }), deadlineMs),
    shutdown: () => done(connection, { method: "POST", path: at("shutdown") }),
  };
}

type Query = Readonly<Record<string, string | number | undefined>>;

function at(subject: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return `/v1/${subject}${text === "" ? "" : `?${text}`}`;
}

/** Repeats are safe, because most requests only read, or carry a key or a number. */
function ask(connection: GuestConnection, call: Partial<GuestCall> & { path: string }): Promise<GuestReply> {
  return connection.call({ method: "GET", deadlineMs, repeatable: true, ...call });
}

async function answer<T>(
  connection: GuestConnection,
  call: Partial<GuestCall> & { path: string },
  schema: z.ZodType<T>,
  maxBytes = answerBytes,
): Promise<T> {
  return parsed(call, await readReply(await ask(connection, call), maxBytes), schema);
}

/** Parses an answer's JSON. Fails with `guest-protocol` when it violates the schema. */
function parsed<T>(
  { method = "GET", path }: Partial<GuestCall> & { path: string },
  body: Buffer,
  schema: z.ZodType<T>,
): T {
  const what = `${method} ${path.split("?")[0]}`;
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw strange(what, error);
  }
  return checked(what, value, schema);
}

function checked<T>(what: string, value: unknown, schema: z.ZodType<T>): T {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  throw strange(what, error);
}

function strange(what: string, cause: unknown): WavesmithError {
  const message = `the guest's answer to ${what} does not follow the protocol: ${messageOf(cause)}`;
  return new WavesmithError("guest-protocol", message, { cause });
}

/** The most to read of an answer that only confirms. */
const nothing = (): void => undefined;

async function done(connection: GuestConnection, call: Partial<GuestCall> & { path: string }): Promise<void> {
  await readReply(await ask(connection, call), 64 * 1024);
}

function condition(ifMatch: string | null | undefined): Record<string, string> {
  if (ifMatch === undefined) return {};
  return ifMatch === null ? { "if-none-match": "*" } : { "if-match": ifMatch };
}

function signalOf(from: { signal?: AbortSignal | undefined } | undefined): { signal?: AbortSignal } {
  return from?.signal === undefined ? {} : { signal: from.signal };
}

function outputPlace(reply: GuestReply, expected: number): { nextOffset: number; ended: boolean } {
  const nextOffset = Number(reply.headers["x-next-offset"]);
  if (nextOffset !== expected)
    throw new WavesmithError("guest-protocol", "the guest's output offset does not fit its output");
  return { nextOffset, ended: reply.headers["x-output-ended"] === "1" };
}

function nullWhenNotFound(error: unknown): null {
  if (error instanceof WavesmithError && error.code === "not-found") return null;
  throw error;
}
