import type { McpServer, McpServerStdio } from "@agentclientprotocol/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { dynamicTool, jsonSchema, type Tool } from "ai";
import { createTail } from "./commands.ts";
import type { ToolSetting } from "./tools/perform.ts";

type Perform = ToolSetting["perform"];
type Environment = Readonly<Record<string, string | undefined>>;

export interface ServedTools {
  /** Creates the tools of the plan's servers, named after their server: `docs_search`. */
  createTools(perform: Perform): Record<string, Tool>;
  /** Creates the tool that submits the task's result, for a role that has one. */
  createResultTools(perform: Perform): Record<string, Tool>;
  /** Describes the servers that could not be started. */
  readonly faults: readonly string[];
  close(): Promise<void>;
}

interface OpenServer {
  readonly name: string;
  readonly client: Client;
  readonly tools: Awaited<ReturnType<Client["listTools"]>>["tools"];
}

/** The server through which results are submitted; its tools keep their names. */
const resultServer = "wavesmith";

/** Starts the session's MCP servers. A server that does not start is left out. */
export async function openServedTools(servers: readonly McpServer[], environment: Environment): Promise<ServedTools> {
  const stdio = servers.flatMap((server) => ("command" in server ? [server] : []));
  const started = await Promise.allSettled(stdio.map((server) => openServer(server, environment)));
  const opened = started.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const toolsOf = (chosen: readonly OpenServer[], perform: Perform): Record<string, Tool> =>
    Object.assign({}, ...chosen.map((server) => createServerTools(server, perform)));
  return {
    createTools: (perform) =>
      toolsOf(
        opened.filter(({ name }) => name !== resultServer),
        perform,
      ),
    createResultTools: (perform) =>
      toolsOf(
        opened.filter(({ name }) => name === resultServer),
        perform,
      ),
    faults: started.flatMap((one, at) =>
      one.status === "rejected" ? [`the MCP server ${stdio[at]!.name} did not start: ${messageOf(one.reason)}`] : [],
    ),
    close: async () => {
      await Promise.all(opened.map(({ client }) => client.close()));
    },
  };
}

async function openServer({ name, command, args, env }: McpServerStdio, environment: Environment): Promise<OpenServer> {
  const client = new Client({ name: "wavesmith", version: "1" });
  const given = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const own = env.map(({ name: key, value }): [string, string] => [key, value]);
  await client.connect(
    new StdioClientTransport({ command, args, env: Object.fromEntries([...given, ...own]), stderr: "inherit" }),
  );
  const { tools } = await client.listTools();
  return { name, client, tools };
}

function createServerTools({ name: server, client, tools }: OpenServer, perform: Perform): Record<string, Tool> {
  const served = tools.map(({ name, description, inputSchema }) => {
    const title = server === resultServer ? name : `${server}_${name}`;
    const call = async (input: unknown): Promise<string> => {
      const reply = await client.callTool({ name, arguments: input as Record<string, unknown> });
      // Results stay in the conversation, so long ones are cut.
      const text = createTail();
      text.take(Buffer.from((reply.content as { text?: string }[]).map((part) => part.text ?? "").join("\n")));
      return text.text();
    };
    const served = dynamicTool({
      ...(description === undefined ? {} : { description }),
      inputSchema: jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]),
      execute: (input, { toolCallId: id }) =>
        perform({ id, input, title, action: "other", paths: [] }, () => call(input)),
    });
    return [title, served];
  });
  return Object.fromEntries(served);
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
