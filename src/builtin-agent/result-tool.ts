import type { McpServer } from "@agentclientprotocol/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { dynamicTool, jsonSchema, type Tool } from "ai";

export interface ServedTools {
  readonly tools: Record<string, Tool>;
  close(): Promise<void>;
}

/**
 * Opens the tools of the session's MCP server, such as `submit_result`; null when there is no
 * server.
 */
export async function openResultTool(servers: readonly McpServer[]): Promise<ServedTools | null> {
  const server = servers.find((each) => "command" in each);
  if (server === undefined || !("command" in server)) return null;
  const client = new Client({ name: "wavesmith", version: "1" });
  await client.connect(new StdioClientTransport({ command: server.command, args: server.args, stderr: "inherit" }));
  const { tools } = await client.listTools();
  const served = tools.map(({ name, description, inputSchema }) => [
    name,
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
