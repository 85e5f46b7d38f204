import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { hostPlatform, listInstalled, toolsFolder } from "../../src/sandbox/tools/place.ts";
import { findPinned } from "../../src/sandbox/tools/table.ts";
import { type FakeAnswer, type FakeCall, type FakeRequest, offersTools } from "./fake-providers.ts";

// Real agents of the registry, installed by .ci/agents (which runs `agents install`) outside the
// project's dependencies, each into its own data directory; and what a model answers to make them
// act.

export const realAgents = ["claude", "codex", "gemini", "opencode"] as const;
export type RealAgent = (typeof realAgents)[number];

const cache = fileURLToPath(new URL("../../node_modules/.cache/wavesmith-agents", import.meta.url));

/** A data directory with only this agent. */
export const dataDirectoryOf = (name: RealAgent): string => join(cache, name);

/** The folder `tools` of that data directory. */
export const toolsOf = (name: RealAgent): string => join(dataDirectoryOf(name), "tools");

/** The agents that are not installed in their pinned version. */
export const lackingAgents = (): string[] =>
  realAgents.filter((name) => {
    if (!existsSync(toolsOf(name))) return true;
    const installed = listInstalled(toolsFolder(join(cache, name), hostPlatform()));
    return installed[0]?.version !== findPinned(name)?.version;
  });

/** The agent as a plan names it. */
export const specOf = (name: RealAgent) => ({
  runtime: "acp",
  command: findPinned(name)!.command,
  model: models[name],
});

/** A command line that starts it outside a sandbox. */
export const startOf = (name: RealAgent): string =>
  `exec '${toolsFolder(join(cache, name), hostPlatform())}/bin/'${findPinned(name)!.command}`;

/** The models that the README names for them. */
export const models: Readonly<Record<RealAgent, string>> = {
  claude: "anthropic:claude-sonnet-5",
  codex: "openai:gpt-6-sol",
  gemini: "google:gemini-3.8-flash",
  opencode: "anthropic:claude-sonnet-5",
};

/** Codex's current models call tools through a program, and older ones (gpt-5) one by one. */
export const codexProgram = (code: string): FakeCall => ({ name: "exec", input: code });

const codexCommand = (command: string): FakeCall =>
  codexProgram(`text((await tools.exec_command({ cmd: ${JSON.stringify(command)} })).output);`);

/** How each agent's model writes a file and runs a command. */
const calls: Readonly<
  Record<RealAgent, { write(path: string, text: string): FakeCall; run(command: string): FakeCall }>
> = {
  claude: {
    write: (path, text) => ({ name: "Write", input: { file_path: path, content: text } }),
    run: (command) => ({ name: "Bash", input: { command, description: "as asked" } }),
  },
  codex: {
    write: (path, text) => codexCommand(`printf '%s' '${text}' > '${path}'`),
    run: codexCommand,
  },
  gemini: {
    write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
    run: (command) => ({ name: "run_shell_command", input: { command } }),
  },
  opencode: {
    write: (path, text) => ({ name: "write", input: { filePath: path, content: text } }),
    run: (command) => ({ name: "bash", input: { command, description: "as asked" } }),
  },
};
export const callsOf = (name: RealAgent) => calls[name];

/**
 * A model that makes these calls, one per turn, and then says "done". An agent's other requests,
 * such as for a session's title, offer no tools and get a word. Every answer costs 100 tokens in
 * and 20 out.
 */
export function scriptedModel(steps: readonly FakeCall[]): (request: FakeRequest) => FakeAnswer {
  let at = 0;
  return (request) => {
    const taken = { inputTokens: 100, outputTokens: 20 };
    if (!offersTools(request)) return { text: "a title", ...taken };
    const step = steps[at];
    at += 1;
    return step === undefined ? { text: "done", ...taken } : { text: "on it", tools: [step], ...taken };
  };
}
