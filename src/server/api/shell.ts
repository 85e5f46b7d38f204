import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { upgradeWebSocket } from "@hono/node-server";
import { z } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";
import type { WSContext } from "hono/ws";
import { type BuildShell, followJob, openBuildShell, shellJob } from "../../api/build-shell.ts";
import { scopesWithin } from "../../domain/access.ts";
import { messageOf } from "../../domain/errors.ts";
import { recordRequest } from "../access/record-request.ts";
import { problem, problemOf } from "../problem.ts";
import { getBuild } from "./builds.ts";
import { checked } from "./checked.ts";
import type { ApiContext } from "./endpoint.ts";

// `GET /api/v1/builds/{id}/shell?task=KEY&rows=24&columns=80` becomes a WebSocket to a shell in the
// build's sandbox, with a terminal of that size, in a temporary checkout like `wavesmith shell`'s.
//
// - It needs the scope `build`. A program sends its key as usual; a page offers the protocols
//   `wavesmith.shell` and `wavesmith.token.TOKEN`, because it can set no headers.
// - Binary messages are what is typed, and what the terminal prints.
// - The server's text messages are JSON: `{"note": "…"}` before the shell is ready, `{"exit": 0}`
//   when it has ended, `{"error": "…"}` when it cannot open.

const query = z.strictObject({
  task: z.string().min(1).max(200).optional(),
  rows: z.coerce.number().int().min(2).max(500).default(24),
  columns: z.coerce.number().int().min(10).max(1_000).default(80),
});
type Asked = z.infer<typeof query>;

/** Unsent output of a slow client beyond this waits in the sandbox. */
const maxUnsentBytes = 1024 * 1024;
/** What is typed or pasted and not read yet; more ends the terminal. */
const maxTypedBytes = 8 * 1024 * 1024;
/** How often the key or session is looked at again. */
const watchMs = 15_000;
const left = { reason: "the terminal was closed", graceMs: 500 };

/** The checks and the handler of the WebSocket. */
export const shellSocket = (api: ApiContext): [MiddlewareHandler, MiddlewareHandler] => [
  (context, next) => admit(api, context, next),
  upgradeWebSocket((context) => {
    const session = createSession(api, context);
    return {
      onOpen: (_, socket) => void session.open(socket),
      onMessage: ({ data }) => session.type(data),
      onClose: () => session.end(),
      onError: () => session.end(),
    };
  }),
];

async function admit(api: ApiContext, context: Context, next: () => Promise<void>): Promise<Response | undefined> {
  const caller = context.get("caller");
  const action = "GET /builds/{id}/shell";
  if (caller === null) return problem(401, "unauthorized", "this request has no valid key or session");
  if (!scopesWithin(caller.scope).includes("build"))
    return problem(
      403,
      "forbidden",
      `the key "${caller.name}" may only ${caller.scope}`,
      "use a key with the scope build",
    );
  if (context.req.header("upgrade")?.toLowerCase() !== "websocket")
    return problem(426, "usage", "this address opens a terminal over a WebSocket", "wavesmith shell does");
  try {
    checked(query, context.req.query(), "the query");
    await getBuild(await api.app.forTenant(caller), context.req.param("id") ?? "");
  } catch (error) {
    return problemOf(error, api.warn);
  }
  await recordRequest(api, caller, { action, params: { id: context.req.param("id") ?? "" }, result: 101 });
  await next();
  return undefined;
}

interface ShellSession {
  open(socket: WSContext): Promise<void>;
  type(data: unknown): void;
  end(): void;
}

function createSession(api: ApiContext, context: Context): ShellSession {
  const gone = new AbortController();
  const ended = AbortSignal.any([gone.signal, api.stopping]);
  let typing: ((data: Buffer) => void) | null = null;
  const say = (socket: WSContext, said: object): void => socket.send(JSON.stringify(said));
  const run = async (socket: WSContext): Promise<void> => {
    const caller = context.get("caller");
    if (caller === null) return;
    const asked = checked(query, context.req.query(), "the query");
    const app = await api.app.forTenant(caller);
    const build = await getBuild(app, context.req.param("id") ?? "");
    const shell = await openBuildShell(app.allTenants, build, { name: randomUUID(), taskKey: asked.task });
    try {
      say(socket, { note: `a temporary checkout of ${shell.what}; changes are discarded when it closes` });
      await setUp(shell, socket, ended);
      const exit = await converse(shell, asked, { socket, ended, onReady: (write) => (typing = write) });
      if (!ended.aborted) say(socket, { exit });
    } finally {
      await shell.close();
    }
  };
  return {
    async open(socket) {
      const watch = setInterval(() => {
        void context
          .get("findCaller")()
          .then(
            (caller) => caller === null && gone.abort(),
            () => undefined, // The next look decides.
          );
      }, watchMs);
      ended.addEventListener("abort", () => socket.close(1001), { once: true });
      try {
        await run(socket);
      } catch (error) {
        if (!ended.aborted) say(socket, { error: messageOf(error) });
      } finally {
        clearInterval(watch);
        socket.close(1000);
      }
    },
    type(data) {
      if (typing === null) return;
      if (typeof data === "string") typing(Buffer.from(data));
      else if (data instanceof ArrayBuffer) typing(Buffer.from(data));
      else if (ArrayBuffer.isView(data)) typing(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    },
    end: () => gone.abort(),
  };
}

/** Runs the plan's setup; a failure is only shown, as in `wavesmith shell`. */
async function setUp({ guest, setup, treePath }: BuildShell, socket: WSContext, ended: AbortSignal): Promise<void> {
  if (setup === null) return;
  const key = `shell-setup-${treePath.split("/").at(-1)}`;
  const stop = (): void => void guest.cancelJob(key, left).catch(() => undefined); // Done again below.
  ended.addEventListener("abort", stop, { once: true });
  try {
    await guest.startJob(key, setup);
    if (ended.aborted) stop();
    await followJob(guest, key, (data) => send(socket, data, ended));
  } finally {
    ended.removeEventListener("abort", stop);
    await guest.cancelJob(key, left);
    await guest.forgetJob(key);
  }
}

interface Conversation {
  readonly socket: WSContext;
  readonly ended: AbortSignal;
  readonly onReady: (write: (data: Buffer) => void) => void;
}

/** Connects the socket with a shell until either ends. Returns the shell's exit code. */
async function converse(
  shell: BuildShell,
  size: Asked,
  { socket, ended, onReady }: Conversation,
): Promise<number | null> {
  const { guest } = shell;
  const key = `terminal-${shell.treePath.split("/").at(-1)}`;
  const stop = (): void => void guest.cancelJob(key, left).catch(() => undefined); // Done again below.
  await guest.startJob(key, shellJob(shell, size));
  ended.addEventListener("abort", stop, { once: true });
  if (ended.aborted) stop();
  let sequence = 0;
  let waitingBytes = 0;
  let writing: Promise<void> = Promise.resolve();
  onReady((data) => {
    waitingBytes += data.length;
    if (waitingBytes > maxTypedBytes) return socket.close(1009, "more is typed than the shell reads");
    const number = sequence++;
    const written = writing.then(() => guest.writeStdin(key, number, data)).catch(() => undefined); // The shell has ended.
    writing = written.then(() => {
      waitingBytes -= data.length;
    });
  });
  try {
    await followJob(guest, key, (data) => send(socket, data, ended));
    return (await guest.findJob(key))?.stages[0]?.exitCode ?? null;
  } finally {
    ended.removeEventListener("abort", stop);
    await guest.cancelJob(key, left);
    await guest.forgetJob(key);
  }
}

/** Sends output, and waits while too much of it is unsent. */
async function send(socket: WSContext, data: Buffer, ended: AbortSignal): Promise<void> {
  if (ended.aborted) return;
  socket.send(new Uint8Array(data));
  const { raw } = socket as { readonly raw?: { readonly bufferedAmount: number } };
  while ((raw?.bufferedAmount ?? 0) > maxUnsentBytes && !ended.aborted) await delay(20);
}
