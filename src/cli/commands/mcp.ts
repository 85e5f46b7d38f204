import { once } from "node:events";
import { type Client, createClient } from "../../client/client.ts";
import { createMcpServer } from "../../mcp/mcp-server.ts";
import { createStdioTransport } from "../../mcp/stdio-transport.ts";
import type { Context } from "../context.ts";
import { withServedApp } from "../data/served-app.ts";
import { type Interrupts, watchInterrupts } from "../interrupts.ts";
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
  try {
    if (server === null) await withServedApp(context, noEvent, (app) => serveTools(context, app, interrupts));
    else {
      const greeting = `Wavesmith speaks MCP on stdin and stdout, for the server ${server.url}`;
      await speak(context, { client: clientOf(server.url, server.key), interrupts, greeting });
    }
    return exit.ok;
  } finally {
    interrupts.dispose();
  }
}

const noEvent = (): void => undefined;

const clientOf = (baseUrl: string, key: string | null): Client =>
  createClient({ baseUrl, ...(key === null ? {} : { key }) });

async function serveTools(context: Context, app: App, interrupts: Interrupts): Promise<void> {
  const config = await context.config();
  const { engine } = config;
  const key = config.serveKey ?? (await serverKey(config)).key;
  const { warn } = context;
  const inform = context.out.note;
  const server = await openServer({ app, engine, key, host: "127.0.0.1", port: 0, inform, warn });
  try {
    await app.start("all");
    const greeting = "Wavesmith speaks MCP on stdin and stdout, and drives builds until stdin ends";
    await speak(context, { client: clientOf(server.origin, key), interrupts, greeting });
  } finally {
    await server.stop();
  }
}

interface Conversation {
  readonly client: Client;
  readonly interrupts: Interrupts;
  readonly greeting: string;
}

/** Answers on stdin and stdout until stdin ends or somebody interrupts. */
async function speak(context: Context, { client, interrupts, greeting }: Conversation): Promise<void> {
  const tools = createMcpServer(client, "1");
  try {
    const ended = once(process.stdin, "close");
    await tools.connect(createStdioTransport(process.stdin, process.stdout));
    context.out.note(greeting);
    if (interrupts.count === 0) await Promise.race([ended, interrupts.next()]);
  } finally {
    await tools.close();
  }
}
