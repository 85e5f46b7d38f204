// The agents that `agents install` knows, as data. What exactly is installed, down to the hash of
// every package, is in pins/<name>/package-lock.json.

export interface PinnedAgent {
  readonly name: string;
  readonly title: string;
  /** What its version is that of. */
  readonly package: string;
  readonly version: string;
  /**
   * What a plan says, `agents: { …: { runtime: acp, command } }`; its first word is the program.
   */
  readonly command: string;
  /** The program, below the folder that npm makes. */
  readonly program: string;
  /** Whose models it speaks to, the usual one first. */
  readonly providers: readonly ("anthropic" | "openai" | "google" | "compatible")[];
  /** Where it can be installed; null: wherever npm can. */
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
    // The program itself: the package `opencode-ai` would bring it twice and needs an install
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

/** By its name, its package or its program; null when it is none that is pinned. */
export const findPinned = (name: string): PinnedAgent | null =>
  pinnedAgents.find((agent) => [agent.name, agent.package, programOf(agent)].includes(name)) ?? null;

/** What it is called on PATH. */
export const programOf = ({ command }: Pick<PinnedAgent, "command">): string => command.split(" ")[0]!;
