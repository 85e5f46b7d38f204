import { once } from "node:events";
import { WebSocket } from "ws";
import { type ApiError, errorOfAnswer, errorWithoutAnswer } from "../../client/api-error.ts";
import { type ErrorCode, WavesmithError } from "../../domain/errors.ts";
import type { Server } from "../context.ts";
import { inOurWords } from "./server-errors.ts";

/** How far our input may be ahead of what the server has read. */
const maxAheadBytes = 1024 * 1024;
const maxMessageBytes = 64 * 1024;

/** A connection to a WebSocket of a server (src/server/api/socket.ts). */
export interface ServerSocket {
  say(value: object): void;
  /** Sends input, and waits while the server has not read enough of what was sent before. */
  send(data: Uint8Array): Promise<void>;
  /**
   * Passes on what the server sends, in order, until the end. Returns the exit code. Fails as a
   * command on a data directory would.
   */
  read(handlers: SocketHandlers): Promise<number | null>;
  close(): void;
}

export interface SocketHandlers {
  output(data: Buffer): void | Promise<void>;
  /** Takes a message that is neither an exit code nor an error. */
  said(value: Readonly<Record<string, unknown>>): void;
}

/** Opens a WebSocket of a server, such as `/builds/bld_x/shell`. */
export async function openServerSocket({ url, key }: Server, path: string): Promise<ServerSocket> {
  const address = `${url}/api/v1${path}`;
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  const socket = new WebSocket(address.replace(/^http/, "ws"), { headers });
  const askWhy = async () => {
    const refusal = await fetch(address, { headers });
    return errorOfAnswer(refusal, await refusal.text());
  };
  const received: (Buffer | Readonly<Record<string, unknown>>)[] = [];
  let wake: () => void = () => undefined;
  let sentBytes = 0;
  let takenBytes = 0;
  let isClosed = false;
  socket.on("message", (data: Buffer, isBinary) => {
    const message = isBinary ? data : (JSON.parse(data.toString()) as Record<string, unknown>);
    if (!Buffer.isBuffer(message) && typeof message.taken === "number") takenBytes = message.taken;
    else received.push(message);
    wake();
  });
  const progress = (): Promise<void> => new Promise((resolve) => (wake = chain(wake, resolve)));
  await inOurWords(opened(socket, url, askWhy));
  socket.on("close", () => {
    isClosed = true;
    wake();
  });
  socket.on("error", () => undefined); // `close` follows.
  return {
    say: (value) => socket.send(JSON.stringify(value)),
    async send(data) {
      for (let at = 0; at < data.length && !isClosed; at += maxMessageBytes) {
        const part = data.subarray(at, at + maxMessageBytes);
        while (sentBytes - takenBytes > maxAheadBytes && !isClosed) await progress();
        sentBytes += part.length;
        if (!isClosed) socket.send(part);
      }
    },
    async read({ output, said }) {
      for (;;) {
        const message = received.shift();
        if (message === undefined && isClosed) throw lost(url);
        if (message === undefined) await progress();
        else if (Buffer.isBuffer(message)) await output(message);
        else if ("exit" in message) return typeof message.exit === "number" ? message.exit : null;
        else if (typeof message.error === "string") throw errorIn(message.error, message);
        else said(message);
      }
    },
    close: () => socket.close(),
  };
}

/** Calls both. */
const chain =
  (first: () => void, second: () => void): (() => void) =>
  () => {
    first();
    second();
  };

/**
 * Resolves once the socket is open; rejects with `ApiError` if the server refuses it. `askWhy`
 * makes the same request without a WebSocket, because the refusal of one has no body.
 */
async function opened(socket: WebSocket, url: string, askWhy: () => Promise<ApiError>): Promise<void> {
  const refused = new Promise<never>((_, reject) => {
    socket.on("unexpected-response", (request) => {
      request.destroy();
      askWhy().then(reject, (error: unknown) => reject(errorWithoutAnswer(url, error)));
    });
    socket.on("error", (error) => reject(errorWithoutAnswer(url, error)));
  });
  await Promise.race([once(socket, "open"), refused]);
}

const lost = (url: string): WavesmithError =>
  new WavesmithError("environment", `lost the connection to ${url}`, { remedy: "run the command again" });

function errorIn(message: string, { code, remedy }: Readonly<Record<string, unknown>>): WavesmithError {
  const remedied = typeof remedy === "string" ? { remedy } : {};
  return new WavesmithError((typeof code === "string" ? code : "internal") as ErrorCode, message, remedied);
}
