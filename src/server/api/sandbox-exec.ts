import { z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { getSandbox } from "../../api/find-sandbox.ts";
import { runCommandInSandbox } from "../../api/sandbox-exec.ts";
import { checked } from "./checked.ts";
import type { ApiContext } from "./endpoint.ts";
import { apiSocket, type SocketCall } from "./socket.ts";

// `GET /api/v1/projects/{id}/sandbox/exec?stdin=true` becomes a WebSocket to a command in the
// joined tree of a project's sandbox, like `wavesmith sandbox exec`.
//
// - The client first says `{"argv": ["ls", "-l"]}`; `{"cancel": "Ctrl-C"}` ends the command.
// - Output begins with a byte: 1 for standard output, 2 for standard error.
// - `{"warning": "…"}` tells of something odd about its end.

const query = z.strictObject({ stdin: z.enum(["true", "false"]).default("false") });
const order = z.union([
  z.strictObject({ argv: z.array(z.string().max(100_000)).min(1).max(1_000) }),
  z.strictObject({ cancel: z.string().max(200) }),
]);

/** The checks and the handler of the WebSocket. */
export const execSocket = (api: ApiContext): [MiddlewareHandler, MiddlewareHandler] =>
  apiSocket(api, {
    action: "GET /projects/{id}/sandbox/exec",
    command: "wavesmith sandbox exec",
    async check({ app: { ports, tenant }, id, query: asked }) {
      checked(query, asked, "the query");
      await getSandbox(ports, id, tenant);
    },
    serve,
  });

async function serve(call: SocketCall): Promise<number | null> {
  const { app, id, ended, say, send } = call;
  const cancelled = new AbortController();
  ended.addEventListener("abort", () => cancelled.abort("its reader has gone"), { once: true });
  const argv = await new Promise<readonly string[]>((resolve, reject) => {
    ended.addEventListener("abort", () => reject(new Error("the client has gone")), { once: true });
    call.onSaid((value) => {
      const said = order.safeParse(value);
      if (!said.success) return say({ warning: "the server knows no such message" });
      if ("argv" in said.data) resolve(said.data.argv);
      else cancelled.abort(said.data.cancel);
    });
  });
  const sandbox = await getSandbox(app.ports, id, app.tenant);
  const from = (stream: 1 | 2) => (data: Buffer) => send(Buffer.concat([Buffer.from([stream]), data]));
  const streams = {
    ...{ stdout: from(1), stderr: from(2), signal: cancelled.signal },
    input: call.query.stdin === "true" ? call.input : null,
    warn: (message: string) => say({ warning: message }),
  };
  return runCommandInSandbox(app.allTenants, sandbox, { argv, streams });
}
