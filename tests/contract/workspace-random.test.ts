import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createWorkspaceFixture,
  type Files,
  gitIn,
  project,
  type WorkspaceFixture,
  writeFiles,
} from "../support/workspace-fixture.ts";

let fixture: WorkspaceFixture;
let base: string;
const names = ["a.txt", "b.txt", "dir/c.txt", "dir/d.txt"];
const text = (name: string) => Array.from({ length: 16 }, (_, line) => `${name} line ${line}\n`);
beforeAll(async () => {
  fixture = await createWorkspaceFixture();
  const main = fixture.git("rev-parse", "refs/heads/main");
  base = fixture.commit(main, Object.fromEntries(names.map((name) => [name, text(name).join("")])));
});
afterAll(() => fixture.dispose());

const edit = fc.record({
  name: fc.constantFrom(...names, "new.txt"),
  kind: fc.constantFrom("line", "line", "line", "delete", "rename"),
  line: fc.nat(15),
});
const branches = fc.array(fc.array(edit, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 });

/** The effect of a task's edits on the base's files; each line it writes contains its mark. */
function edited(mark: string, edits: readonly { name: string; kind: string; line: number }[]): Files {
  const files: Record<string, string[] | null> = {};
  for (const { name, kind, line } of edits) {
    const before = name in files ? files[name] : name === "new.txt" ? [] : text(name);
    if (!before) continue;
    if (kind === "line")
      files[name] = [...before.slice(0, line), `${mark} ${name} ${line}\n`, ...before.slice(line + 1)];
    if (kind !== "line" && before.length > 0) files[name] = null;
    if (kind === "rename" && before.length > 0) files[`${mark}-${name.replace("/", "-")}`] = before;
  }
  return Object.fromEntries(Object.entries(files).map(([name, content]) => [name, content?.join("") ?? null]));
}

test("random histories: a join gives the same as merging one after the other, and accepted text is never lost", async () => {
  const run = fc.asyncProperty(branches, async (tasks) => {
    const made = tasks.map((edits, index) => {
      const files = Object.fromEntries(
        Object.entries(edited(`t${index}`, edits)).filter(
          ([name, content]) => content !== null || names.includes(name),
        ),
      );
      return { taskKey: `t${index}`, title: `T${index}`, commit: fixture.commit(base, files) };
    });
    const result = await fixture.join(base, made);
    expect([...result.joined, ...result.conflicts.map((conflict) => conflict.taskKey)].sort()).toEqual(
      made.map((one) => one.taskKey).sort(),
    );
    expect(await fixture.join(base, made)).toEqual(result);
    const sequential = mergeByHand(made);
    expect(result.joined).toEqual(sequential.joined);
    expect(fixture.git("rev-parse", `${result.head}^{tree}`)).toBe(sequential.tree);
    for (const one of made.filter((each) => result.joined.includes(each.taskKey))) {
      expect(await fixture.workspace.isAncestor(project, one.commit, result.head)).toBe(true);
    }
    const all = Object.values(fixture.filesOf(result.head)).join("");
    for (const one of made.filter((each) => result.joined.includes(each.taskKey))) {
      for (const line of addedLines(one.commit)) expect(all).toContain(line);
    }
    for (const conflict of result.conflicts) expect(conflict.paths.length).toBeGreaterThan(0);
  });
  // fast-check prints the seed and the path of a failure.
  await fc.assert(run, { numRuns: 12 });
}, 120_000);

/** Lines that a branch wrote and no other branch can write, because they contain its mark. */
function addedLines(commit: string): string[] {
  const diff = fixture.git("diff", "--no-renames", "--unified=0", base, commit);
  return diff
    .split("\n")
    .filter((line) => /^\+t\d/.test(line))
    .map((line) => line.slice(1));
}

/** Does the same with `git merge` in a clone, as a person would. */
function mergeByHand(made: readonly { taskKey: string; commit: string }[]): { joined: string[]; tree: string } {
  const clone = mkdtempSync(join(fixture.folder, "clone-"));
  mkdirSync(clone, { recursive: true });
  gitIn(clone, "init", "-q");
  writeFiles(clone, { ".git/objects/info/alternates": `${fixture.workspace.repositoryPath(project)}/objects\n` });
  gitIn(clone, "checkout", "-q", "--detach", base);
  const joined: string[] = [];
  for (const { taskKey, commit } of made) {
    try {
      gitIn(clone, "merge", "-q", "--no-ff", "-m", "join", commit);
      joined.push(taskKey);
    } catch {
      // A conflict: the tree is as before.
      gitIn(clone, "merge", "--abort");
    }
  }
  return { joined, tree: gitIn(clone, "rev-parse", "HEAD^{tree}") };
}
