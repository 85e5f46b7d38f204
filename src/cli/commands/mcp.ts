import { once } from "node:events";
import { createClient } from "../../client/client.ts";
import { createMcpServer } from "../../mcp/mcp-server.ts";
import { createStdioTransport } from "../../mcp/stdio-transport.ts";
import { type Context, refuseServer } from "../context.ts";
import { withServedApp } from "../data/served-app.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { openServer, serverKey } from "../parts.ts";

/**
 * `mcp`: gives another agent Wavesmith's verbs on stdin and stdout, and drives the builds it starts
 * until stdin ends. Its tools call the API of a server on a free port of loopback.
 */
export async function mcp(context: Context): Promise<number> {
  await refuseServer(context);
  const config = await context.config();
  const interrupts = watchInterrupts(process);
  interrupts.on((count) => {
    if (count > 1) process.exit(exit.cancelled);
  });
  try {
    await withServedApp(
      context,
      () => undefined,
      async (app) => {
        const { engine } = config;
        const key = config.serveKey ?? (await serverKey(config)).key;
        const { warn } = context;
        const server = await openServer({
          app,
          engine,
          key,
          host: "127.0.0.1",
          port: 0,
          inform: context.out.note,
          warn,
        });
        const tools = createMcpServer(createClient({ baseUrl: server.origin, key }), "1");
        try {
          await app.start("all");
          const ended = once(process.stdin, "close");
          await tools.connect(createStdioTransport(process.stdin, process.stdout));
          context.out.note("Wavesmith speaks MCP on stdin and stdout, and drives builds until stdin ends");
          if (interrupts.count === 0) await Promise.race([ended, interrupts.next()]);
        } finally {
          await tools.close();
          await server.stop();
        }
      },
    );
    return exit.ok;
  } finally {
    interrupts.dispose();
  }
}
