import { randomUUID } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import {
  type BuildShell,
  followJob,
  openBuildShell,
  setUpShell,
  shellInput,
  shellJob,
  type TerminalSize,
} from "../../api/build-shell.ts";
import { getBuild } from "./builds.ts";
import { checked } from "./checked.ts";
import type { ApiContext } from "./endpoint.ts";
import { apiSocket, type SocketCall } from "./socket.ts";

// `GET /api/v1/builds/{id}/shell?task=KEY&rows=24&columns=80` becomes a WebSocket to a shell in the
// build's sandbox, with a terminal of that size, or with `terminal=false` without one, in a
// temporary checkout like `wavesmith shell`'s.
//
// - Input is what is typed, and output is what the terminal prints.
// - `{"note": "…"}` and `{"warning": "…"}` tell what happens before the shell is ready, and
//   `{"ready": true}` that it is. Until then, `{"skip": true}` from the client skips the setup.
// - `{"rows": 40, "columns": 120}` from the client gives the terminal another size.

const rows = z.coerce.number().int().min(2).max(500);
const columns = z.coerce.number().int().min(10).max(1_000);
const windowSize = z.object({ rows, columns });
const query = z.strictObject({
  task: z.string().min(1).max(200).optional(),
  rows: rows.default(24),
  columns: columns.default(80),
  terminal: z.enum(["true", "false"]).default("true"),
});
const left = { reason: "the terminal was closed", graceMs: 500 };

/** The checks and the handler of the WebSocket. */
export const shellSocket = (api: ApiContext): [MiddlewareHandler, MiddlewareHandler] =>
  apiSocket(api, {
    action: "GET /builds/{id}/shell",
    command: "wavesmith shell",
    async check({ app, id, query: asked }) {
      checked(query, asked, "the query");
      await getBuild(app, id);
    },
    serve,
  });

async function serve(call: SocketCall): Promise<number | null> {
  const { app, ended, say, send } = call;
  const asked = checked(query, call.query, "the query");
  const build = await getBuild(app, call.id);
  const shell = await openBuildShell(app.allTenants, build, { name: randomUUID(), taskKey: asked.task });
  try {
    const skipped = new AbortController();
    const size = createSize(asked.terminal === "true" ? asked : null);
    call.onSaid((value) => {
      if ("skip" in value) skipped.abort();
      const { data } = windowSize.safeParse(value);
      if (data !== undefined) size.set(data);
    });
    await setUpShell(shell, {
      note: (text) => say({ note: text }),
      warn: (text) => say({ warning: text }),
      write: send,
      signal: AbortSignal.any([skipped.signal, ended]),
    });
    say({ ready: true });
    return await converse(shell, call, size);
  } finally {
    await shell.close();
  }
}

/** The size of the client's window; null if it wants no terminal. */
interface WindowSize {
  readonly latest: TerminalSize | null;
  set(next: TerminalSize): void;
  onChange(listener: (next: TerminalSize) => void): void;
}

function createSize(first: TerminalSize | null): WindowSize {
  let latest = first;
  let tell: (next: TerminalSize) => void = () => undefined;
  return {
    get latest() {
      return latest;
    },
    set(next) {
      if (latest === null) return;
      latest = next;
      tell(next);
    },
    onChange: (listener) => (tell = listener),
  };
}

/** Connects the client with a shell until either ends. Returns the shell's exit code. */
async function converse(
  shell: BuildShell,
  { input, send, ended }: SocketCall,
  size: WindowSize,
): Promise<number | null> {
  const { guest } = shell;
  const key = `terminal-${shell.treePath.split("/").at(-1)}`;
  const stop = (): void => void guest.cancelJob(key, left).catch(() => undefined); // `finally` below does it again.
  const typing = shellInput(guest, key, size.latest !== null);
  const before = size.latest;
  await guest.startJob(key, shellJob(shell, before));
  const resize = (next: TerminalSize): void => void typing.resize(next).catch(() => undefined); // The shell has ended.
  if (size.latest !== null && size.latest !== before) resize(size.latest);
  size.onChange(resize);
  ended.addEventListener("abort", stop, { once: true });
  if (ended.aborted) stop();
  const forward = async (): Promise<void> => {
    for await (const data of input) await typing.type(data);
    await typing.end();
  };
  forward().catch(() => undefined); // The shell has ended.
  try {
    await followJob(guest, key, send);
    return (await guest.findJob(key))?.stages[0]?.exitCode ?? null;
  } finally {
    ended.removeEventListener("abort", stop);
    await guest.cancelJob(key, left);
    await guest.forgetJob(key);
  }
}
