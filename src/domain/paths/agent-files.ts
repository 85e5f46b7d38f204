import { itemAt } from "../known.ts";
import { isNamedBy } from "./write-globs.ts";

// Files anywhere in a tree that agents read as instructions or settings. An agent could use them to
// steer the next agent, so a task may change only those that its plan names.

/** Names of files and folders; a folder includes everything in it. Case is ignored. */
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
  // What starts our own builds
  "wavesmith.yaml",
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

const names = agentFileNames.map((name) => name.split("/").map(foldName));

/**
 * Folds a name as case-insensitive file systems do: case, compatible characters, invisible
 * characters, trailing dots and spaces.
 */
function foldName(segment: string): string {
  const visible = segment.normalize("NFKC").replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, "");
  return visible.toLowerCase().replace(/[. ]+$/, "");
}

/** Returns the segment at which a listed name ends in the path; null when the path holds none. */
function findSegment(path: string): number | null {
  const parts = path.split("/");
  const segments = parts.map(foldName);
  for (let start = 0; start < segments.length; start += 1) {
    for (const name of names) {
      // A changed path may end at a folder of a listed name, because a link can replace the folder.
      const comparedLength = Math.min(name.length, segments.length - start);
      if (start > 0 && isPlainPage(itemAt(parts, start), name)) continue;
      if (name.slice(0, comparedLength).every((part, index) => part === segments[start + index]))
        return start + comparedLength - 1;
    }
  }
  return null;
}

/**
 * Whether a segment is a documentation page such as `docs/agents.md`: agents do not look for
 * lower-case names below the root.
 */
const isPlainPage = (segment: string, name: readonly string[]): boolean =>
  segment.endsWith(".md") && segment === name[0] && !segment.startsWith(".");

/** Whether agents read the file at this path as instructions or settings. */
export const isAgentFile = (path: string): boolean => findSegment(path) !== null;

/** A symlink that agents read as one of these files, and its target. */
export interface AgentLink {
  readonly path: string;
  readonly target: string;
}

/**
 * Returns the paths that agents read as instructions or settings, and whether a glob names each.
 */
export function agentFilesAmong(
  paths: readonly string[],
  globs: readonly string[],
  links: readonly AgentLink[] = [],
): { file: string; declared: boolean }[] {
  return paths.flatMap((file) => {
    const segment = findSegment(file) ?? findLinkedSegment(file, links);
    return segment === null ? [] : [{ file, declared: globs.some((glob) => isNamedBy(glob, file, segment)) }];
  });
}

function findLinkedSegment(path: string, links: readonly AgentLink[]): number | null {
  const link = links.find(({ target }) => path === target || path.startsWith(`${target}/`));
  return link === undefined ? null : link.target.split("/").length - 1;
}
