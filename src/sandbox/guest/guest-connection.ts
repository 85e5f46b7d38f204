// Sends requests to a guest over a byte stream, with pooled connections, deadlines, size caps and
// translated errors.
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import type { Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { errorSchema } from "./guest-schemas.ts";

const errorBodyBytes = 64 * 1024;
const noReason = "unknown";
/** A reply slower than this per minute fails. */
const minBytes = 4_096;
const minMs = 60_000;
const pooledIdleMs = 60_000;

export type Connect = () => Promise<Duplex>;

export interface GuestCall {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** The path with its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | Readable;
  /** The longest time without a byte in either direction. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  /**
   * Whether repeating the call is safe; then a pooled connection that turned out closed is not a
   * failure.
   */
  readonly repeatable?: boolean;
}

export interface GuestReply {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** The caller reads or destroys it. */
  readonly body: IncomingMessage;
}

export interface GuestConnection {
  /** Returns replies with 2xx or a status in `expected`; throws every other one, translated. */
  call(call: GuestCall, expected?: readonly number[]): Promise<GuestReply>;
  upgrade(path: string, deadlineMs: number): Promise<Duplex>;
}

/** Creates a connection to the guest at the other end of `connect`. `name` is for messages. */
export function createGuestConnection(connect: Connect, name: string): GuestConnection {
  const agent = new Agent({ keepAlive: true, timeout: pooledIdleMs });
  // Node's type wants a socket at once; its code also takes one later, and any duplex stream.
  const open = (_options: unknown, done: (error: Error | null, stream?: Duplex) => void): undefined => {
    connect().then(
      (stream) => done(null, stream),
      (error: unknown) => done(error instanceof Error ? error : new Error(messageOf(error))),
    );
  };
  Object.assign(agent, { createConnection: open });

  const call: GuestConnection["call"] = async (asked, expected = []) => {
    const reply = await send(agent, asked).catch((error: unknown) => {
      // The caller's own abort is not a failure of the guest.
      throw asked.signal?.aborted === true ? asked.signal.reason : unreachable(name, asked, error);
    });
    const status = reply.statusCode ?? 0;
    if ((status >= 200 && status < 300) || expected.includes(status))
      return { status, headers: reply.headers, body: reply };
    throw await refusal(name, asked, reply);
  };
  return {
    call,
    upgrade: (path, deadlineMs) => upgrade(agent, { method: "GET", path, deadlineMs }, name),
  };
}

/** Reads a reply to its end. Fails with `guest-protocol` above `maxBytes`. */
export async function readReply(reply: GuestReply, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  let knownBytes = 0;
  const slow = setInterval(() => {
    if (sizeBytes - knownBytes < minBytes)
      reply.body.destroy(
        new WavesmithError(
          "guest-protocol",
          `only ${sizeBytes - knownBytes} bytes of the guest's answer came in a minute`,
        ),
      );
    knownBytes = sizeBytes;
  }, minMs);
  try {
    for await (const chunk of reply.body as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes)
        throw new WavesmithError("guest-protocol", `the guest's answer is larger than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof WavesmithError || (error instanceof Error && error.name === "AbortError")) throw error;
    throw new WavesmithError("sandbox-unavailable", `the guest's answer broke off: ${messageOf(error)}`, {
      retryable: true,
      cause: error,
    });
  } finally {
    clearInterval(slow);
  }
  return Buffer.concat(chunks);
}

async function send(agent: Agent, call: GuestCall): Promise<IncomingMessage> {
  for (;;) {
    const { request, reply } = begin(agent, call);
    try {
      return await reply;
    } catch (error) {
      // The guest closed a pooled connection just when we used it again.
      const wasStale = request.reusedSocket && (error as NodeJS.ErrnoException).code === "ECONNRESET";
      if (!wasStale || call.repeatable !== true || call.signal?.aborted === true) throw error;
    }
  }
}

function begin(agent: Agent, call: GuestCall): { request: ClientRequest; reply: Promise<IncomingMessage> } {
  const { method, path, headers = {}, body, deadlineMs, signal } = call;
  const isStream = body !== undefined && typeof body !== "string" && !Buffer.isBuffer(body);
  const length = isStream ? {} : { "content-length": String(body === undefined ? 0 : Buffer.byteLength(body)) };
  const options = {
    agent,
    method,
    path,
    headers: { host: "guest", ...length, ...headers },
    ...(signal ? { signal } : {}),
  };
  const request = httpRequest(options);
  const late = (): void => {
    request.destroy(new Error(`no answer for ${deadlineMs} ms`));
  };
  request.setTimeout(deadlineMs, late);
  // Without a socket there is no socket timeout yet.
  const connecting = setTimeout(late, deadlineMs);
  request.on("socket", (socket) => {
    if (!socket.connecting) clearTimeout(connecting);
    else socket.once("connect", () => clearTimeout(connecting));
  });
  // Every byte of a slow header counts as activity.
  const answering = isStream ? undefined : setTimeout(late, 4 * deadlineMs);
  const reply = new Promise<IncomingMessage>((resolve, reject) => {
    request.on("response", (response) => {
      clearTimeout(answering);
      resolve(response);
    });
    request.on("error", reject);
    request.on("close", () => {
      clearTimeout(connecting);
      clearTimeout(answering);
      reject(new Error("the connection was closed")); // No effect after a response.
    });
  });
  // An early refusal breaks the upload; then the reply gives the reason, not the broken pipe.
  if (isStream) pipeline(body, request).catch(() => undefined);
  else request.end(body);
  return { request, reply };
}

function upgrade(agent: Agent, call: GuestCall, name: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const headers = { host: "guest", connection: "Upgrade", upgrade: "tcp" };
    const request = httpRequest({ agent, method: call.method, path: call.path, headers });
    const late = (): void => {
      request.destroy(new Error(`no answer for ${call.deadlineMs} ms`));
    };
    request.setTimeout(call.deadlineMs, late);
    // Every byte of a slow header counts as activity.
    const answering = setTimeout(late, 4 * call.deadlineMs);
    request.on("close", () => clearTimeout(answering));
    request.on("upgrade", (_reply, socket, head) => {
      clearTimeout(answering);
      socket.setTimeout(0);
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    request.on("response", (reply) => refusal(name, call, reply).then(reject, reject));
    request.on("error", (error) => reject(unreachable(name, call, error)));
    request.end();
  });
}

function unreachable(name: string, call: GuestCall, error: unknown): WavesmithError {
  const message = `the guest of ${name} cannot be reached (${call.method} ${call.path}): ${messageOf(error)}`;
  return new WavesmithError("sandbox-unavailable", message, { retryable: true, cause: error });
}

async function refusal(name: string, call: GuestCall, reply: IncomingMessage): Promise<WavesmithError> {
  const fault = { status: reply.statusCode ?? 0, ...(await readError(reply)) };
  return refusalOf(name, `${call.method} ${call.path.split("?")[0]}`, fault);
}

/** Translates an unsuccessful answer of the guest. */
export function refusalOf(
  name: string,
  asked: string,
  { status, code, message }: { status: number; code: string; message: string },
): WavesmithError {
  const text = `the guest of ${name} refused ${asked}: ${message}`;
  if (status === 404 && code === "not-found") return new WavesmithError("not-found", text);
  if (status === 409 || status === 412) return new WavesmithError("conflict", text);
  if (code === "path" || code === "forbidden") return new WavesmithError("sandbox-path", text);
  if (status === 502 || status === 503) {
    const remedy = "try again: a sandbox that has ended is started again by its next use";
    return new WavesmithError("sandbox-unavailable", text, { retryable: true, remedy });
  }
  if (code === "no-space") {
    return new WavesmithError("environment", text, {
      remedy: "free space on the disk that holds the sandbox's volume",
    });
  }
  if (code === "not-started" || code === "archive") return new WavesmithError("environment", text);
  // A guest always gives a reason, so this did not come from one.
  return new WavesmithError(code === noReason ? "guest-protocol" : "guest-refused", `${text} (HTTP ${status})`);
}

async function readError(reply: IncomingMessage): Promise<{ code: string; message: string }> {
  try {
    const body = await readReply({ status: 0, headers: reply.headers, body: reply }, errorBodyBytes);
    return errorSchema.parse(JSON.parse(body.toString("utf8"))).error;
  } catch {
    return { code: noReason, message: "it did not say why" }; // The status decides; the body is only for the message.
  }
}
