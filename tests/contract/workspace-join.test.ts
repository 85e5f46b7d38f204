import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { JoinBranch } from "../../src/workspace/port.ts";
import { createWorkspace } from "../../src/workspace/workspace.ts";
import {
  author,
  createWorkspaceFixture,
  type Files,
  project,
  someDate,
  type WorkspaceFixture,
} from "../support/workspace-fixture.ts";

let fixture: WorkspaceFixture;
let base: string;
const lines = (...changes: [number, string][]) =>
  Array.from({ length: 12 }, (_, index) => changes.find(([at]) => at === index)?.[1] ?? `line ${index}`).join("\n");
beforeEach(async () => {
  fixture = await createWorkspaceFixture();
  const main = fixture.git("rev-parse", "refs/heads/main");
  base = fixture.commit(main, {
    "a.txt": lines(),
    "b.txt": lines(),
    "src/one.ts": lines(),
    "src/two.ts": "two\n",
    "package-lock.json": "{ }\n",
  });
});
afterEach(() => fixture.dispose());

const branch = (taskKey: string, files: Files, on = base): JoinBranch => ({
  taskKey,
  title: `Task ${taskKey}`,
  commit: fixture.commit(on, files),
});

describe("joining branches", () => {
  test("that change different lines gives all of their work, a merge for each, in the order given", async () => {
    const branches = [
      branch("x", { "a.txt": lines([0, "X"]) }),
      branch("y", { "a.txt": lines([11, "Y"]) }),
      branch("z", { new: "z" }),
    ];
    const result = await fixture.join(base, branches);
    expect(result).toMatchObject({ joined: ["x", "y", "z"], conflicts: [], regenerate: [] });
    expect(fixture.filesOf(result.head)).toMatchObject({ "a.txt": lines([0, "X"], [11, "Y"]), new: "z" });
    expect(fixture.git("log", "--first-parent", "--format=%s|%an|%at", `${base}..${result.head}`).split("\n")).toEqual(
      ["z", "y", "x"].map((key) => `Join ${key}|${author.name}|${someDate.getTime() / 1000}`),
    );
    expect(fixture.git("rev-list", "--merges", "--count", `${base}..${result.head}`)).toBe("3");
  });

  test("gives the same tree for branches with different files as merging them one after the other", async () => {
    const odd = ['say "hi"', "back\\slash", "two\nlines", "ümlaut/\u{1f600}", "-dash", " space ", "tab\there"];
    const branches = [
      ...odd.map((name, n) => branch(`odd-${n}`, { [name]: name, [`src/${n}/deep/er.ts`]: "x" })),
      branch("edit", { "a.txt": lines([0, "X"]) }),
      branch("same", { "a.txt": lines([11, "Y"]), fresh: "f" }),
      branch("later", { later: "l" }),
      branch("remove", { "b.txt": null }),
      branch("last", { last: "l" }),
    ];
    const result = await fixture.join(base, branches);
    expect(result.joined).toEqual(branches.map(({ taskKey }) => taskKey));
    const identity = { NAME: author.name, EMAIL: author.email, DATE: `@${someDate.getTime() / 1000} +0000` };
    const env = Object.fromEntries(
      Object.entries(identity).flatMap(([key, value]) =>
        ["AUTHOR", "COMMITTER"].map((who) => [`GIT_${who}_${key}`, value]),
      ),
    );
    const plumb = (args: string[], input = "") => {
      const gitDir = fixture.workspace.repositoryPath(project);
      return spawnSync("git", ["--git-dir", gitDir, ...args], {
        encoding: "utf8",
        input,
        env: { ...process.env, ...env },
      }).stdout.trim();
    };
    const head = branches.reduce((before, { taskKey, commit }) => {
      const tree = plumb(["merge-tree", "--write-tree", before, commit]);
      return plumb(["commit-tree", tree, "-p", before, "-p", commit], `Join ${taskKey}\n`);
    }, base);
    expect(result.head).toBe(head);
    expect(fixture.git("for-each-ref", "refs/wavesmith")).toBe("");
  });

  test("joins many branches that were all committed after the date it gives the merges", async () => {
    const root = fixture.git("rev-parse", "refs/heads/main");
    const branches = Array.from({ length: 12 }, (_, n) => branch(`t-${n}`, { [`file-${n}`]: `${n}` }, root));
    const before = new Date("2020-01-01T00:00:00Z");
    const result = await fixture.join(root, branches, { date: before });
    expect(result.joined).toHaveLength(12);
    expect(Object.keys(fixture.filesOf(result.head))).toHaveLength(12);
  });

  test("moves no ref and gives the same head again, in this process and in another", async () => {
    const branches = [branch("x", { "a.txt": lines([0, "X"]) }), branch("y", { "b.txt": lines([3, "Y"]) })];
    const refs = fixture.git("for-each-ref");
    const first = await fixture.join(base, branches);
    expect(await fixture.join(base, branches)).toEqual(first);
    expect(fixture.git("for-each-ref")).toBe(refs);
    const script = `
      import { createWorkspace } from ${JSON.stringify(join(import.meta.dirname, "../../src/workspace/workspace.ts"))};
      const request = JSON.parse(process.argv[1]);
      const workspace = createWorkspace({ dataDir: ${JSON.stringify(fixture.dataDir)} });
      const message = (branch) => "Join " + branch.taskKey;
      console.log((await workspace.join({ ...request, date: new Date(request.date), message })).head);`;
    const request = JSON.stringify({ projectId: project, base, branches, generated: [], date: someDate, author });
    const other = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script, request], {
      cwd: join(import.meta.dirname, "../.."),
      encoding: "utf8",
    });
    expect(other.stdout.trim()).toBe(first.head);
  });

  test("that crashes in the middle is repeated with the same head", async () => {
    const branches = [branch("x", { "a.txt": "X" }), branch("y", { "b.txt": "Y" })];
    let merges = 0;
    const crashing = createWorkspace({
      dataDir: fixture.dataDir,
      env: process.env,
      crashPoint: () => {
        merges += 1;
        if (merges === 2) throw new Error("crash");
      },
    });
    const request = { projectId: project, base, branches, generated: [], date: someDate, author };
    const message = (one: JoinBranch) => `Join ${one.taskKey}`;
    await expect(crashing.join({ ...request, message })).rejects.toThrow("crash");
    expect((await crashing.join({ ...request, message })).head).toBe((await fixture.join(base, branches)).head);
  });

  test("that are already in the head are joined without a merge", async () => {
    const x = branch("x", { "a.txt": "X" });
    const y = branch("y", { "a.txt": "XY" }, x.commit);
    const result = await fixture.join(base, [y, x, { taskKey: "old", title: "Old", commit: base }]);
    expect(result.joined).toEqual(["y", "x", "old"]);
    expect(fixture.git("rev-list", "--merges", "--count", `${base}..${result.head}`)).toBe("1");
  });

  test("with no branches at all gives the base", async () => {
    expect(await fixture.join(base, [])).toEqual({ head: base, joined: [], conflicts: [], regenerate: [] });
  });

  test("with a missing commit fails by name", async () => {
    await expect(fixture.join(base, [{ taskKey: "x", title: "X", commit: "1".repeat(40) }])).rejects.toThrow(/1{40}/);
  });
});

describe("conflicts", () => {
  test("leave out the whole later branch, say where and with which branch, and do not stop the others", async () => {
    const branches = [
      branch("first", { "a.txt": lines([5, "first"]) }),
      branch("second", { "a.txt": lines([5, "second"]), "own.txt": "kept on its branch" }),
      branch("third", { "b.txt": lines([2, "third"]) }),
    ];
    const result = await fixture.join(base, branches);
    expect(result.joined).toEqual(["first", "third"]);
    expect(result.conflicts).toMatchObject([{ taskKey: "second", paths: ["a.txt"], otherKeys: ["first"] }]);
    expect(result.conflicts[0]?.detail).toBe(
      "CONFLICT (content): Merge conflict in a.txt\ntask first (Task first) changed a.txt",
    );
    expect(fixture.filesOf(result.head)).not.toHaveProperty("own.txt");
    expect(await fixture.workspace.isAncestor(project, branches[1]!.commit, result.head)).toBe(false);
  });

  test("with work from outside this join are explained too", async () => {
    const older = branch("older", { "a.txt": lines([5, "older"]) });
    const newBase = fixture.commit(base, { "a.txt": lines([5, "newer"]) });
    const result = await fixture.join(newBase, [older]);
    expect(result).toMatchObject({ head: newBase, joined: [] });
    expect(result.conflicts[0]?.detail).toContain("differs from the tree task older started from");
  });

  test.each<[string, Files, Files, string[]]>([
    ["a change and a deletion", { "a.txt": null }, { "a.txt": lines([1, "x"]) }, ["a.txt"]],
    ["two files of one name", { new: "one\n" }, { new: "two\n" }, ["new"]],
    ["a folder and a file of one name", { "thing/inner": "x\n" }, { thing: "y\n" }, ["thing"]],
    [
      "two renames of one file",
      { "a.txt": null, left: lines() },
      { "a.txt": null, right: lines() },
      ["a.txt", "left", "right"],
    ],
    ["a rename and a deletion", { "a.txt": null, moved: lines() }, { "a.txt": null }, ["moved"]],
    [
      "a renamed folder and a new file in it",
      { "src/one.ts": null, "src/two.ts": null, "lib/one.ts": lines(), "lib/two.ts": "two\n" },
      { "src/three.ts": "3\n" },
      ["lib/three.ts"],
    ],
  ])("of %s drop nobody's text", async (_, one, two, paths) => {
    for (const [first, second] of [
      [one, two],
      [two, one],
    ] as const) {
      const result = await fixture.join(base, [branch("first", first), branch("second", second)]);
      expect(result.joined).toEqual(["first"]);
      expect(result.conflicts[0]?.paths).toEqual(paths);
      expect(result.conflicts[0]?.detail).toMatch(/^CONFLICT /);
      expect(result.conflicts[0]?.detail).not.toMatch(/[0-9a-f]{40}/);
    }
  });

  test("in names with newlines and quotes are read correctly", async () => {
    const name = 'odd\n"name"\t';
    const result = await fixture.join(base, [branch("x", { [name]: "x" }), branch("y", { [name]: "y" })]);
    expect(result.conflicts).toMatchObject([{ taskKey: "y", paths: [name] }]);
  });

  test("are not resolved by a merge driver that a tree asks for", async () => {
    const own = fixture.commit(base, { ".gitattributes": "*.txt merge=union\n" });
    fixture.git("update-ref", "refs/heads/main", own);
    const result = await fixture.join(own, [
      branch("x", { "a.txt": lines([5, "x"]) }, own),
      branch("y", { "a.txt": lines([5, "y"]) }, own),
    ]);
    expect(result.conflicts).toMatchObject([{ taskKey: "y" }]);
  });
});

describe("generated files", () => {
  const generated = ["package-lock.json", "**/*.gen.ts"];

  test("take the head's side and are listed for regeneration", async () => {
    const branches = [
      branch("x", { "package-lock.json": "x\n", "src/x.gen.ts": "x\n", "a.txt": lines([0, "x"]) }),
      branch("y", { "package-lock.json": "y\n", "src/x.gen.ts": "y\n", "a.txt": lines([11, "y"]) }),
    ];
    const result = await fixture.join(base, branches, { generated });
    expect(result).toMatchObject({
      joined: ["x", "y"],
      conflicts: [],
      regenerate: ["package-lock.json", "src/x.gen.ts"],
    });
    expect(fixture.filesOf(result.head)).toMatchObject({
      "package-lock.json": "x\n",
      "src/x.gen.ts": "x\n",
      "a.txt": lines([0, "x"], [11, "y"]),
    });
    expect((await fixture.join(base, branches, { generated })).head).toBe(result.head);
  });

  test("stay deleted if the head has deleted them", async () => {
    const branches = [branch("x", { "package-lock.json": null }), branch("y", { "package-lock.json": "y\n" })];
    const result = await fixture.join(base, branches, { generated });
    expect(result).toMatchObject({ joined: ["x", "y"], regenerate: ["package-lock.json"] });
    expect(fixture.filesOf(result.head)).not.toHaveProperty("package-lock.json");
  });

  test("do not settle another file's conflict, and are not reported for it", async () => {
    const branches = [
      branch("x", { "package-lock.json": "x\n", "a.txt": lines([5, "x"]) }),
      branch("y", { "package-lock.json": "y\n", "a.txt": lines([5, "y"]) }),
    ];
    const result = await fixture.join(base, branches, { generated });
    expect(result).toMatchObject({ joined: ["x"], conflicts: [{ taskKey: "y", paths: ["a.txt"] }], regenerate: [] });
  });

  test("are an ordinary conflict if one side has a folder in their place", async () => {
    const branches = [
      branch("x", { "package-lock.json": null, "package-lock.json/inner": "x\n" }),
      branch("y", { "package-lock.json": "y\n" }),
    ];
    const result = await fixture.join(base, branches, { generated });
    if (result.joined.includes("y")) {
      expect(fixture.filesOf(result.head)).toMatchObject({ "package-lock.json/inner": "x\n" });
    } else {
      expect(result.conflicts).toMatchObject([{ taskKey: "y", paths: ["package-lock.json"] }]);
    }
  });
});
