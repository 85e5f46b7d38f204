import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hostPlatform, toolsFolder } from "../../src/sandbox/tools/place.ts";
import { findPinned, programOf } from "../../src/sandbox/tools/table.ts";
import { type FakeCall, type FakeRequest, offersTools } from "./fake-providers.ts";
import { codexProgram, dataDirectoryOf, models } from "./real-agents.ts";

// Claude Code and Codex as people use them on the command line, with our MCP server in their
// settings, and what a model answers to make each of them call its tools.

export const mcpAgents = ["claude", "codex"] as const;
export type McpAgent = (typeof mcpAgents)[number];

/** Our MCP server, as it is named in an agent's settings. */
export type McpServer =
  | { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> }
  | { readonly url: string; readonly key: string };

/** How each agent's model calls a tool of the server `wavesmith`. */
export const mcpCall: Readonly<Record<McpAgent, (tool: string, args: object) => FakeCall>> = {
  claude: (tool, args) => ({ name: `mcp__wavesmith__${tool}`, input: args }),
  // Codex refuses a call by the tool's own name as "unsupported"; its model writes a program
  // instead.
  codex: (tool, args) => codexProgram(`text(await tools.mcp__wavesmith__${tool}(${JSON.stringify(args)}));`),
};

/** Whether this is a step of the agent's work, and not a request for a title or a summary. */
export const isStep = (request: FakeRequest): boolean =>
  offersTools(request) && JSON.stringify(request.body).includes("wavesmith");

/** A program that npm installed beside the agent's adapter. */
function programBeside(name: McpAgent, program: string): string {
  const adapter = join(toolsFolder(dataDirectoryOf(name), hostPlatform()), "bin", programOf(findPinned(name)!));
  const [root = ""] = realpathSync(adapter).split("/node_modules/@agentclientprotocol/");
  return join(root, "node_modules", program);
}

interface Run {
  /** An empty folder for its settings and its work. */
  readonly folder: string;
  readonly server: McpServer;
  readonly modelUrl: string;
}

const starts: Readonly<Record<McpAgent, (run: Run) => { words: string[]; env: Record<string, string> }>> = {
  claude({ folder, server, modelUrl }) {
    const settings = join(folder, "mcp.json");
    const wavesmith =
      "url" in server
        ? { type: "http", url: server.url, headers: { Authorization: `Bearer ${server.key}` } }
        : { command: process.execPath, ...server };
    writeFileSync(settings, JSON.stringify({ mcpServers: { wavesmith } }));
    const program = programBeside(
      "claude",
      `@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}/claude`,
    );
    return {
      words: [program, "-p", "go", "--mcp-config", settings, "--strict-mcp-config", "--allowedTools", "mcp__wavesmith"],
      env: {
        ...{ ANTHROPIC_BASE_URL: `${modelUrl}/anthropic`, ANTHROPIC_API_KEY: "wst_test" },
        ...{ ANTHROPIC_MODEL: models.claude.split(":")[1]!, CLAUDE_CONFIG_DIR: join(folder, ".claude") },
        ...{ ENABLE_TOOL_SEARCH: "false", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" },
      },
    };
  },
  codex({ folder, server, modelUrl }) {
    const home = join(folder, ".codex");
    mkdirSync(home);
    const mcp =
      "url" in server
        ? [`url = ${JSON.stringify(server.url)}`, 'bearer_token_env_var = "WAVESMITH_KEY"']
        : [
            `command = ${JSON.stringify(process.execPath)}`,
            `args = ${JSON.stringify(server.args)}`,
            "[mcp_servers.wavesmith.env]",
            ...Object.entries(server.env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`),
          ];
    const lines = [
      ...[
        `model = ${JSON.stringify(models.codex.split(":")[1])}`,
        'model_provider = "fake"',
        'web_search = "disabled"',
      ],
      ...["[model_providers.fake]", 'name = "fake"', `base_url = ${JSON.stringify(`${modelUrl}/openai/v1`)}`],
      ...['env_key = "OPENAI_API_KEY"', 'wire_api = "responses"', "[mcp_servers.wavesmith]", "required = true", ...mcp],
    ];
    writeFileSync(join(home, "config.toml"), `${lines.join("\n")}\n`);
    const flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
    return {
      words: [programBeside("codex", ".bin/codex"), "exec", ...flags, "go"],
      env: { CODEX_HOME: home, OPENAI_API_KEY: "wst_test", ...("url" in server ? { WAVESMITH_KEY: server.key } : {}) },
    };
  },
};

/** Runs an agent until it has done what its model tells it. Rejects with its output if it fails. */
export async function runMcpAgent(name: McpAgent, run: Run): Promise<string> {
  const { words, env } = starts[name](run);
  const [program = "", ...args] = words;
  const { PATH = "" } = process.env;
  const child = spawn(program, args, {
    cwd: run.folder,
    env: { PATH, HOME: run.folder, TMPDIR: run.folder, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${name} ended with ${code}:\n${output}`);
  return output;
}
