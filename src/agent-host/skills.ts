import { readFileSync } from "node:fs";
import { join } from "node:path";

const maxDescriptionLength = 500;

/**
 * Describes the skills of a role in its prompt, so that every agent can use them: a name, its
 * purpose, and the file to read. A folder without a SKILL.md is left out.
 */
export function skillsSection(tree: string, folders: readonly string[]): string {
  const lines = folders.flatMap((folder) => {
    const file = join(folder, "SKILL.md");
    try {
      return [`- ${describeSkill(readFileSync(join(tree, file), "utf8"), folder)} (read ${file})`];
    } catch (error) {
      if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return [];
      throw error;
    }
  });
  if (lines.length === 0) return "";
  return `\n\n## Skills\n\nBefore work that one of these is for, read its file and follow it:\n\n${lines.join("\n")}\n`;
}

/** Takes `name` and `description` from the front matter, or else the first heading. */
function describeSkill(text: string, folder: string): string {
  const [, matter = ""] = /^---\n([\s\S]*?)\n---/.exec(text) ?? [];
  const field = (name: string): string | undefined => new RegExp(`^${name}:\\s*(.+)$`, "m").exec(matter)?.[1]?.trim();
  const heading = /^#\s+(.+)$/m.exec(text)?.[1];
  const described = [field("name") ?? heading ?? folder, field("description")].filter((part) => part !== undefined);
  return described.join(": ").slice(0, maxDescriptionLength);
}
