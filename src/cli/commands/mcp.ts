import { once } from "node:events";
import { type Client, createClient } from "../../client/client.ts";
import { createMcpServer } from "../../mcp/mcp-server.ts";
import { createStdioTransport } from "../../mcp/stdio-transport.ts";
import type { Context } from "../context.ts";
import { withServedApp } from "../data/served-app.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { type App, openServer, serverKey } from "../parts.ts";

/**
 * `mcp`: gives another agent Wavesmith's verbs on stdin and stdout. On a data directory it drives
 * the builds it starts until stdin ends, and its tools call a server on a free port of loopback.
 */
export async function mcp(context: Context): Promise<number> {
  const server = await context.server();
  const interrupts = watchInterrupts(process);
  interrupts.on((count) => {
    if (count > 1) process.exit(exit.cancelled);
  });
  let setClient: (client: Client) => void = () => undefined;
  const client = new Promise<Client>((resolve) => {
    setClient = resolve;
  });
  const tools = createMcpServer(client, "1");
  const ended = Promise.race([once(process.stdin, "close"), interrupts.next()]);
  try {
    // Before the database is open, because some clients soon ask their model, with the tools that
    // have been listed by then.
    await tools.connect(createStdioTransport(process.stdin, process.stdout));
    if (server === null) await withServedApp(context, noEvent, (app) => serveTools(context, app, { setClient, ended }));
    else {
      setClient(clientOf(server.url, server.key));
      context.out.note(`Wavesmith speaks MCP on stdin and stdout, for the server ${server.url}`);
      await ended;
    }
    return exit.ok;
  } finally {
    await tools.close();
    interrupts.dispose();
  }
}

const noEvent = (): void => undefined;

const clientOf = (baseUrl: string, key: string | null): Client =>
  createClient({ baseUrl, ...(key === null ? {} : { key }) });

interface Conversation {
  /** Gives the tools the client that they call. */
  readonly setClient: (client: Client) => void;
  /** Resolves when stdin ends or somebody interrupts. */
  readonly ended: Promise<unknown>;
}

async function serveTools(context: Context, app: App, { setClient, ended }: Conversation): Promise<void> {
  const config = await context.config();
  const { engine } = config;
  const key = config.serveKey ?? (await serverKey(config)).key;
  const { warn } = context;
  const inform = context.out.note;
  const server = await openServer({ app, engine, key, host: "127.0.0.1", port: 0, inform, warn });
  try {
    await app.start("all");
    setClient(clientOf(server.origin, key));
    context.out.note("Wavesmith speaks MCP on stdin and stdout, and drives builds until stdin ends");
    await ended;
  } finally {
    await server.stop();
  }
}
