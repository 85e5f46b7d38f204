import type { McpServer, McpServerStdio } from "@agentclientprotocol/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { dynamicTool, jsonSchema, type Tool } from "ai";

export interface ServedTools {
  readonly tools: Record<string, Tool>;
  close(): Promise<void>;
}

/** The server through which results are submitted; its tools keep their names. */
const ownServer = "wavesmith";

/**
 * Opens the tools of the session's MCP servers. Those of the plan's servers are named after their
 * server: `docs_search`.
 */
export async function openServedTools(
  servers: readonly McpServer[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ServedTools> {
  const stdio = servers.flatMap((server) => ("command" in server ? [server] : []));
  const opened = await Promise.all(stdio.map((server) => openServer(server, environment)));
  return {
    tools: Object.assign({}, ...opened.map(({ tools }) => tools)),
    close: async () => {
      await Promise.all(opened.map(({ close }) => close()));
    },
  };
}

async function openServer(
  { name: server, command, args, env }: McpServerStdio,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ServedTools> {
  const client = new Client({ name: "wavesmith", version: "1" });
  const given = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const own = env.map(({ name, value }): [string, string] => [name, value]);
  await client.connect(
    new StdioClientTransport({ command, args, env: Object.fromEntries([...given, ...own]), stderr: "inherit" }),
  );
  const { tools } = await client.listTools();
  const served = tools.map(({ name, description, inputSchema }) => [
    server === ownServer ? name : `${server}_${name}`,
    dynamicTool({
      ...(description === undefined ? {} : { description }),
      inputSchema: jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]),
      execute: async (input) => {
        const reply = await client.callTool({ name, arguments: input as Record<string, unknown> });
        return (reply.content as { text?: string }[]).map(({ text }) => text ?? "").join("\n");
      },
    }),
  ]);
  return { tools: Object.fromEntries(served), close: () => client.close() };
}
