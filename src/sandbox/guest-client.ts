import { join } from "node:path";
import type { Duplex, Readable } from "node:stream";
import type { z } from "zod";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import {
  type Call,
  type Connect,
  createGuestConnection,
  type GuestConnection,
  type Reply,
  readReply,
} from "./guest-connection.ts";
import {
  execResultSchema,
  fileStatSchema,
  fileStatsSchema,
  healthSchema,
  jobStateSchema,
  jobStatesSchema,
  portsSchema,
} from "./guest-schemas.ts";
import { connectToSocket } from "./guest-socket.ts";
import type { ExecSpec, GuestClient, JobState } from "./port.ts";

const deadlineMs = 30_000;
const streamDeadlineMs = 120_000;
const answerBytes = 64 * 1024 * 1024;
const fileBytes = 16 * 1024 * 1024;

export interface GuestClientOptions {
  /** How to reach the guest: a byte stream, the path of its unix socket (of any length), or that in two parts. */
  readonly connect?: Connect | string;
  readonly socketFolder?: string;
  /** In `socketFolder`; default `guest.sock`. */
  readonly socketName?: string;
  /** The sandbox, for messages; default the socket. */
  readonly name?: string;
}

/** A client of one guest. It keeps connections while it is used and needs no closing: idle ones hold no process up. */
export function createGuestClient(options: GuestClientOptions): GuestClient {
  const { socketFolder = ".", socketName = "guest.sock" } = options;
  const place = options.connect ?? join(socketFolder, socketName);
  const name = options.name ?? (typeof place === "string" ? place : "the sandbox");
  const connection = createGuestConnection(typeof place === "string" ? () => connectToSocket(place) : place, name);
  return { ...fileCalls(connection), ...jobCalls(connection), ...otherCalls(connection) };
}

type FileCalls = Pick<GuestClient, "readFile" | "writeFile" | "remove" | "stat" | "list" | "pack" | "unpack">;

function fileCalls(connection: GuestConnection): FileCalls {
  return {
    readFile: async (path, { maxBytes = fileBytes } = {}) => {
      const reply = await ask(connection, { path: at("files", { path, max: maxBytes }) }).catch(nullWhenNotFound);
      return reply === null ? null : readReply(reply, maxBytes);
    },
    writeFile: async (path, data, { mode, ifMatch } = {}) => {
      const query = at("files", { path, ...(mode === undefined ? {} : { mode: mode.toString(8) }) });
      await done(connection, { method: "PUT", path: query, body: data, headers: condition(ifMatch) });
    },
    remove: (path, { recursive = false } = {}) =>
      done(connection, {
        method: "DELETE",
        path: at("files", { path, recursive: recursive ? 1 : 0 }),
        deadlineMs: streamDeadlineMs,
      }),
    stat: (path) => answer(connection, { path: at("stat", { path }) }, fileStatSchema).catch(nullWhenNotFound),
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

function jobCalls(connection: GuestConnection): JobCalls {
  const job = (key: string, rest: string, query: Query = {}): string =>
    at(`jobs/${encodeURIComponent(key)}${rest}`, query);
  const state = async (key: string, call: Partial<Call> & { path: string }): Promise<JobState> => {
    const found = await answer(connection, call, jobStateSchema);
    if (found.key !== key)
      throw new WavesmithError("guest-protocol", `the guest answered for job ${found.key}, not ${key}`);
    return found;
  };
  return {
    startJob: (key, spec) => state(key, { method: "PUT", path: job(key, ""), body: JSON.stringify(spec) }),
    findJob: (key, wait) => {
      const query = wait === undefined ? {} : { revision: wait.revision, waitMs: wait.waitMs };
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
    forgetJob: (key) => done(connection, { method: "DELETE", path: job(key, "") }),
  };
}

type OtherCalls = Pick<GuestClient, "health" | "exec" | "allocatePorts" | "tunnel" | "shutdown">;

function otherCalls(connection: GuestConnection): OtherCalls {
  return {
    health: (signal) =>
      answer(connection, { path: at("health"), deadlineMs: 10_000, ...signalOf({ signal }) }, healthSchema),
    exec: (spec: ExecSpec) => {
      const call = { method: "POST" as const, path: at("exec"), body: JSON.stringify(spec), repeatable: false };
      // As JSON a byte of output may take six; both streams have their cap.
      const maxBytes = 1024 * 1024 + 12 * spec.maxBytes;
      return answer(connection, { ...call, deadlineMs: deadlineMs + spec.timeoutMs }, execResultSchema, maxBytes);
    },
    allocatePorts: async (count) => {
      const call = { method: "POST" as const, path: at("ports"), body: JSON.stringify({ count }) };
      const { ports } = await answer(connection, call, portsSchema);
      if (ports.length !== count)
        throw new WavesmithError("guest-protocol", `the guest gave ${ports.length} ports, not ${count}`);
      return ports;
    },
    tunnel: (port): Promise<Duplex> => connection.upgrade(at("tunnel", { port }), deadlineMs),
    shutdown: () => done(connection, { method: "POST", path: at("shutdown") }),
  };
}

type Query = Readonly<Record<string, string | number>>;

function at(subject: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
  const text = parameters.toString();
  return `/v1/${subject}${text === "" ? "" : `?${text}`}`;
}

/** Most requests only ask, or may be repeated because of their key, their number or what they say. */
function ask(connection: GuestConnection, call: Partial<Call> & { path: string }): Promise<Reply> {
  return connection.call({ method: "GET", deadlineMs, repeatable: true, ...call });
}

async function answer<T>(
  connection: GuestConnection,
  call: Partial<Call> & { path: string },
  schema: z.ZodType<T>,
  maxBytes = answerBytes,
): Promise<T> {
  const body = await readReply(await ask(connection, call), maxBytes);
  try {
    return schema.parse(JSON.parse(body.toString("utf8")));
  } catch (error) {
    const what = `${call.method ?? "GET"} ${call.path.split("?")[0]}`;
    throw new WavesmithError(
      "guest-protocol",
      `the guest's answer to ${what} is not of the protocol: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

async function done(connection: GuestConnection, call: Partial<Call> & { path: string }): Promise<void> {
  await readReply(await ask(connection, call), 64 * 1024);
}

function condition(ifMatch: string | null | undefined): Record<string, string> {
  if (ifMatch === undefined) return {};
  return ifMatch === null ? { "if-none-match": "*" } : { "if-match": ifMatch };
}

function signalOf(from: { signal?: AbortSignal | undefined } | undefined): { signal?: AbortSignal } {
  return from?.signal === undefined ? {} : { signal: from.signal };
}

function outputPlace(reply: Reply, expected: number): { nextOffset: number; ended: boolean } {
  const nextOffset = Number(reply.headers["x-next-offset"]);
  if (nextOffset !== expected)
    throw new WavesmithError("guest-protocol", "the guest's output offset does not fit its output");
  return { nextOffset, ended: reply.headers["x-output-ended"] === "1" };
}

function nullWhenNotFound(error: unknown): null {
  if (error instanceof WavesmithError && error.code === "not-found") return null;
  throw error;
}
