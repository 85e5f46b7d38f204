import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

// An MCP server on stdin and stdout, as a plan's role may have one.

const server = new McpServer({ name: "docs", version: "1" });
server.registerTool(
  "lookup",
  { description: "Looks a word up", inputSchema: { word: z.string() } },
  async ({ word }: { word: string }) => ({ content: [{ type: "text" as const, text: `${word} means forty-two` }] }),
);
server.connect(new StdioServerTransport());
