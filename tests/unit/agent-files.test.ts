import { describe, expect, it } from "vitest";
import { agentFileNames, agentFilesAmong, isAgentFile } from "../../src/domain/paths/agent-files.ts";

describe("files that agents take as instructions", () => {
  it.each(agentFileNames)("are recognised at any depth, with everything in them: %s", (name) => {
    for (const path of [name, `a/b/${name}`, `${name}/inner/file.md`, name.toUpperCase()])
      expect(isAgentFile(path), path).toBe(true);
  });

  it.each([
    ["in another case", "Agents.MD"],
    ["in another case below the root", "docs/Agents.md"],
    ["written small in the root", "agents.md"],
    ["with a sign nobody sees", ".cl\u200baude/settings.json"],
    ["with characters that some file systems take for the same", "agent\u017f.md"],
    ["with a dot at the end, which Windows drops", "CLAUDE.md."],
    ["as a link in the place of its folder", "packages/a/.github"],
  ])("are known %s", (_, path) => {
    expect(isAgentFile(path)).toBe(true);
  });

  it.each([
    "docs/agents.md",
    "agents.ts",
    "src/claude/x.ts",
    "docs/AGENTS.txt",
    "my-CLAUDE.md",
    ".github/workflows/ci.yml",
    ".vscode/x",
  ])("are not %s", (path) => expect(isAgentFile(path)).toBe(false));

  it.each([
    ["AGENTS.md", "AGENTS.md", true],
    ["**/AGENTS.md", "docs/AGENTS.md", true],
    ["docs/{AGENTS,CLAUDE}.md", "docs/CLAUDE.md", true],
    [".claude/", ".claude/settings.json", true],
    [".claude/agents/*.md", ".claude/agents/x.md", true],
    [".github/copilot-instructions.md", ".github/copilot-instructions.md", true],
    ["**", "AGENTS.md", false],
    ["*.md", "AGENTS.md", false],
    ["src/**", "src/.claude/settings.json", false],
    [".*/**", ".claude/settings.json", false],
    ["**/settings.json", ".claude/settings.json", false],
    [".github/**", ".github/copilot-instructions.md", false],
    ["AGENTS.md", "agents.md", false],
    ["!src/x", "AGENTS.md", false],
  ])("are declared by a glob that names them, and by no other: %s for %s", (glob, path, declared) => {
    expect(agentFilesAmong([path], [glob])).toEqual([{ file: path, declared }]);
  });

  it("include the target of a link with such a name", () => {
    const links = [
      { path: "CLAUDE.md", target: "docs/guide.md" },
      { path: ".claude", target: "tools/ai" },
    ];
    const paths = ["docs/guide.md", "docs/other.md", "tools/ai/settings.json", "tools/x"];
    expect(agentFilesAmong(paths, ["docs/*.md", "tools/ai/**"], links)).toEqual([
      { file: "docs/guide.md", declared: false },
      { file: "tools/ai/settings.json", declared: true },
    ]);
  });
});
