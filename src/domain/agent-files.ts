import { isNamedBy } from "./write-globs.ts";

// What agents read as instructions or settings of their own, wherever it lies in a tree: with one
// of these an agent steers the next one, so none may be changed without the plan having named it.

/** Names of files and folders; a folder means everything in it. Compared without regard to case. */
export const agentFileNames: readonly string[] = [
  "AGENTS.md",
  "AGENTS.override.md",
  "AGENT.md",
  ".agents",
  ".agent",
  ".mcp.json",
  // Claude Code
  "CLAUDE.md",
  "CLAUDE.local.md",
  ".claude",
  ".claude-plugin",
  // Codex
  ".codex",
  // Gemini CLI, Qwen Code
  "GEMINI.md",
  ".gemini",
  ".geminiignore",
  "QWEN.md",
  ".qwen",
  // opencode, Crush
  "opencode.json",
  "opencode.jsonc",
  ".opencode",
  "CRUSH.md",
  "CRUSH.local.md",
  "crush.json",
  ".crush.json",
  ".crush",
  // Editors with agents
  ".cursor",
  ".cursorrules",
  ".windsurf",
  ".windsurfrules",
  ".github/copilot-instructions.md",
  ".github/instructions",
  ".github/prompts",
  ".github/agents",
  ".github/chatmodes",
  ".vscode/mcp.json",
  ".continue",
  ".continuerules",
  ".clinerules",
  ".cline",
  ".roo",
  ".roomodes",
  ".roorules",
  ".kilocode",
  ".kilocodemodes",
  ".junie",
  ".augment",
  ".augment-guidelines",
  ".kiro",
  ".trae",
  "WARP.md",
  // Others
  ".aider.conf.yml",
  ".aider.model.settings.yml",
  ".aider.model.metadata.json",
  ".goose",
  ".goosehints",
  ".openhands",
  ".openhands_instructions",
  ".amazonq",
  ".factory",
];

const names = agentFileNames.map((name) => name.split("/").map(folded));

/**
 * As file systems that fold names compare them: case, compatible characters, invisible ones, dots
 * and spaces at the end.
 */
function folded(segment: string): string {
  const visible = segment.normalize("NFKC").replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, "");
  return visible.toLowerCase().replace(/[. ]+$/, "");
}

/** Where in a path (in segments) a name of the list ends; null when none is in it. */
function placeIn(path: string): number | null {
  const given = path.split("/");
  const segments = given.map(folded);
  for (let start = 0; start < segments.length; start += 1) {
    for (const name of names) {
      // A changed path that ends where the name has a folder is a link that stands in the folder's
      // place.
      const known = Math.min(name.length, segments.length - start);
      if (start > 0 && isPlainPage(given[start]!, name)) continue;
      if (name.slice(0, known).every((part, index) => part === segments[start + index])) return start + known - 1;
    }
  }
  return null;
}

/**
 * A page of documentation, such as `docs/agents.md`: written small and below the root no agent
 * looks for it.
 */
const isPlainPage = (segment: string, name: readonly string[]): boolean =>
  segment.endsWith(".md") && segment === name[0] && !segment.startsWith(".");

/** Whether agents take what is at this path as instructions or settings. */
export const isAgentFile = (path: string): boolean => placeIn(path) !== null;

/** A link of the tree that agents read as one of these files, and where it leads. */
export interface AgentLink {
  readonly path: string;
  readonly target: string;
}

/**
 * Those of the paths that agents read as instructions or settings, with whether one of the globs
 * names them.
 */
export function agentFilesAmong(
  paths: readonly string[],
  globs: readonly string[],
  links: readonly AgentLink[] = [],
): { file: string; declared: boolean }[] {
  return paths.flatMap((file) => {
    const place = placeIn(file) ?? placeBehind(file, links);
    return place === null ? [] : [{ file, declared: globs.some((glob) => isNamedBy(glob, file, place)) }];
  });
}

function placeBehind(path: string, links: readonly AgentLink[]): number | null {
  const link = links.find(({ target }) => path === target || path.startsWith(`${target}/`));
  return link === undefined ? null : link.target.split("/").length - 1;
}
