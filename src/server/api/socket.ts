import { upgradeWebSocket } from "@hono/node-server";
import type { Context, MiddlewareHandler } from "hono";
import type { WSContext } from "hono/ws";
import type { Caller } from "../../domain/access.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { tooManyRequests } from "../access/rate-limit.ts";
import { recordRequest } from "../access/record-request.ts";
import { refuseScope } from "../access/scope.ts";
import type { ServedApp } from "../port.ts";
import { problem, problemOf } from "../problem.ts";
import type { ApiContext } from "./endpoint.ts";

// Routes that become a WebSocket. They need the scope `build`. A program sends its key as usual; a
// page offers the protocol `wavesmith.token.TOKEN`, because it can set no headers.
//
// - The client's binary messages are input, which `{"end": true}` closes; its text messages are
//   JSON. `{"taken": BYTES}` from the server says how much input was read in all; a client that is
//   8 MiB ahead of it is cut off.
// - The server's binary messages are output. Its text messages are JSON; the last one is
//   `{"exit": 0}`, or `{"error": "…", "code": "…", "remedy": "…"}`.

/** Unsent output of a slow client beyond this waits in the sandbox. */
const maxUnsentBytes = 1024 * 1024;
/** The most input that may be unread; more ends the connection. */
const maxUnreadBytes = 8 * 1024 * 1024;
/** How much we read before we report it to the client again. */
const tellEveryBytes = 256 * 1024;
/** How often the key or session is looked at again. */
const watchMs = 15_000;
const pollMs = 20;
/** The most JSON messages that wait for a listener. */
const maxUnheard = 100;

/** A client that is connected. */
export interface SocketCall {
  /** The app as the caller's tenant sees it. */
  readonly app: ServedApp;
  readonly id: string;
  readonly query: Readonly<Record<string, string>>;
  /** The client's input, in order; it ends with `{"end": true}` or the connection. */
  readonly input: AsyncIterable<Buffer>;
  /** Listens to the client's JSON messages, including those that came before this call. */
  onSaid(heard: (value: object) => void): void;
  /** Aborted when the client is gone, its key has ended, or the server stops. */
  readonly ended: AbortSignal;
  say(value: object): void;
  /** Sends output, and waits while too much of it is unsent. */
  send(data: Uint8Array): Promise<void>;
}

interface SocketRoute {
  /** As the audit log says it, such as `GET /builds/{id}/shell`. */
  readonly action: string;
  /** The program that people use instead of typing the address into a browser. */
  readonly command: string;
  /** Fails if the query is wrong, or if the caller's tenant has no such thing. */
  check(call: Pick<SocketCall, "app" | "id" | "query">): Promise<void>;
  /** Serves the client. Returns the exit code. */
  serve(call: SocketCall): Promise<number | null>;
}

/** Makes the checks and the handler of a WebSocket. */
export const apiSocket = (api: ApiContext, route: SocketRoute): [MiddlewareHandler, MiddlewareHandler] => [
  (context, next) => admit(api, route, { context, next }),
  upgradeWebSocket((context) => {
    const connection = createConnection(api, route, context);
    return {
      onOpen: (_, socket) => void connection.open(socket),
      onMessage: ({ data }) => connection.take(data),
      onClose: () => connection.end(),
      onError: () => connection.end(),
    };
  }),
];

interface Admission {
  readonly context: Context;
  readonly next: () => Promise<void>;
}

async function admit(
  api: ApiContext,
  { action, command, check }: SocketRoute,
  { context, next }: Admission,
): Promise<Response | undefined> {
  const caller = context.get("caller");
  if (caller === null) return problem(401, "unauthorized", "this request has no valid key or session");
  const refused = refuseScope(caller, "build");
  if (refused !== null) return refused;
  const waitMs = api.rateLimit.waitMs(caller);
  if (waitMs > 0) return tooManyRequests(caller, waitMs);
  const id = context.req.param("id") ?? "";
  try {
    await check({ app: await api.app.forTenant(caller), id, query: context.req.query() });
  } catch (error) {
    return problemOf(error, api.warn);
  }
  // Only now, because a client whose WebSocket was refused asks like this for the reason.
  if (context.req.header("upgrade")?.toLowerCase() !== "websocket")
    return problem(426, "usage", "this address opens a terminal over a WebSocket", `${command} does`);
  await recordRequest(api, caller, { action, params: { id }, result: 101 });
  await next();
  return undefined;
}

interface Connection {
  open(socket: WSContext): Promise<void>;
  take(data: unknown): void;
  end(): void;
}

function createConnection(api: ApiContext, { serve }: SocketRoute, context: Context): Connection {
  const gone = new AbortController();
  const ended = AbortSignal.any([gone.signal, api.stopping]);
  let open: WSContext | null = null;
  const say = (value: object): void => open?.send(JSON.stringify(value));
  const inbox = createInbox(ended, {
    taken: (bytes) => say({ taken: bytes }),
    tooMuch: () => open?.close(1009, "more is sent than is read"),
  });
  const run = async (socket: WSContext, caller: Caller): Promise<void> => {
    const { raw } = socket as { readonly raw?: { readonly bufferedAmount: number } };
    open = socket;
    const call = {
      ...{ app: await api.app.forTenant(caller), id: context.req.param("id") ?? "", query: context.req.query() },
      ...{ input: inbox.input, onSaid: inbox.onSaid, ended, say },
      async send(data: Uint8Array) {
        if (ended.aborted) return;
        socket.send(new Uint8Array(data));
        while ((raw?.bufferedAmount ?? 0) > maxUnsentBytes && !ended.aborted)
          await new Promise((resolve) => setTimeout(resolve, pollMs));
      },
    };
    try {
      const exit = await serve(call);
      if (!ended.aborted) say({ exit });
    } catch (error) {
      if (!ended.aborted) say(errorMessage(error));
    }
  };
  return {
    async open(socket) {
      const caller = context.get("caller");
      const watch = setInterval(() => {
        void context
          .get("findCaller")()
          .then(
            (found) => found === null && gone.abort(),
            () => undefined, // The next look decides.
          );
      }, watchMs);
      ended.addEventListener("abort", () => socket.close(1001), { once: true });
      try {
        if (caller !== null) await run(socket, caller);
      } finally {
        clearInterval(watch);
        socket.close(1000);
      }
    },
    take: inbox.take,
    end: () => gone.abort(),
  };
}

function errorMessage(error: unknown): object {
  if (!(error instanceof WavesmithError)) return { error: messageOf(error), code: "internal", remedy: null };
  return { error: error.message, code: error.code, remedy: error.remedy };
}

interface InboxReports {
  /** Called now and then with how many bytes were read in all. */
  taken(bytes: number): void;
  /** Called when a client is too far ahead. */
  tooMuch(): void;
}

/** Keeps what a client has sent until it is read. */
function createInbox(ended: AbortSignal, reports: InboxReports) {
  const unread: Buffer[] = [];
  const said: object[] = [];
  let unreadBytes = 0;
  let takenBytes = 0;
  let toldBytes = 0;
  let isClosed = false;
  let wake: () => void = () => undefined;
  let listener: ((value: object) => void) | null = null;
  const close = (): void => {
    isClosed = true;
    wake();
  };
  ended.addEventListener("abort", close, { once: true });
  async function* input(): AsyncGenerator<Buffer> {
    for (;;) {
      const data = unread.shift();
      if (data === undefined && isClosed) return;
      if (data === undefined) await new Promise<void>((resolve) => (wake = resolve));
      else {
        yield data;
        unreadBytes -= data.length;
        takenBytes += data.length;
        if (takenBytes - toldBytes < tellEveryBytes || ended.aborted) continue;
        toldBytes = takenBytes;
        reports.taken(takenBytes);
      }
    }
  }
  return {
    input: input(),
    onSaid(heard: (value: object) => void) {
      listener = heard;
      for (const value of said.splice(0)) heard(value);
    },
    take(data: unknown) {
      const message = messageIn(data);
      if (message === null || ended.aborted) return;
      if (!Buffer.isBuffer(message)) {
        if ("end" in message) close();
        else if (listener !== null) listener(message);
        else if (said.length < maxUnheard) said.push(message);
        return;
      }
      if (isClosed) return;
      unread.push(message);
      unreadBytes += message.length;
      if (unreadBytes > maxUnreadBytes) reports.tooMuch();
      wake();
    },
  };
}

/** Reads a message; null for text that is no JSON object. */
function messageIn(data: unknown): Buffer | object | null {
  if (data instanceof ArrayBuffer) return Buffer.from(data);
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (typeof data !== "string") return null;
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" ? value : null;
  } catch {
    return null; // None of our programs sends this.
  }
}
