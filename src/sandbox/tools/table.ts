import { itemAt } from "../../domain/known.ts";
// The agents that `agents install` knows. pins/<name>/package-lock.json says exactly what is
// installed, down to the hash of every package.

export interface PinnedAgent {
  readonly name: string;
  readonly title: string;
  /** The package whose version is the agent's. */
  readonly package: string;
  readonly version: string;
  /**
   * The command in a plan, `agents: { …: { runtime: acp, command } }`; its first word is the
   * program.
   */
  readonly command: string;
  /** The program's path in the folder that npm makes. */
  readonly program: string;
  /** The providers of its models, the usual one first. */
  readonly providers: readonly ("anthropic" | "openai" | "google" | "compatible")[];
  /** The platforms it can be installed on; null for all of npm's. */
  readonly platforms: readonly string[] | null;
}

export const pinnedAgents: readonly PinnedAgent[] = [
  {
    name: "claude",
    title: "Claude Code",
    package: "@agentclientprotocol/claude-agent-acp",
    version: "0.100.0",
    command: "claude-agent-acp",
    program: "node_modules/.bin/claude-agent-acp",
    providers: ["anthropic"],
    platforms: null,
  },
  {
    name: "codex",
    title: "Codex",
    package: "@agentclientprotocol/codex-acp",
    version: "2.6.0",
    command: "codex-acp",
    program: "node_modules/.bin/codex-acp",
    providers: ["openai"],
    platforms: null,
  },
  {
    name: "gemini",
    title: "Gemini CLI",
    package: "@google/gemini-cli",
    version: "0.61.0",
    command: "gemini --acp",
    program: "node_modules/.bin/gemini",
    providers: ["google"],
    platforms: null,
  },
  {
    // The package with the program itself: `opencode-ai` would bring it twice and needs an install
    // script to choose one.
    name: "opencode",
    title: "opencode",
    package: "opencode-linux-x64-baseline",
    version: "1.18.33",
    command: "opencode acp",
    program: "node_modules/opencode-linux-x64-baseline/bin/opencode",
    providers: ["anthropic", "openai", "google", "compatible"],
    platforms: ["linux-x64"],
  },
];

/** Finds a pinned agent by its name, package or program; null for any other. */
export const findPinned = (name: string): PinnedAgent | null =>
  pinnedAgents.find((agent) => [agent.name, agent.package, programOf(agent)].includes(name)) ?? null;

/** Returns its program's name on PATH. */
export const programOf = ({ command }: Pick<PinnedAgent, "command">): string => itemAt(command.split(" "), 0);
