import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Sha } from "../../src/workspace/port.ts";
import { createWorkspaceFixture, project, type WorkspaceFixture } from "../support/workspace-fixture.ts";

// A tree in which several tasks work: each keeps and restores its own files, and touches nothing
// else.

describe("a tree that several share", () => {
  let fixture: WorkspaceFixture;
  let base: Sha;
  let trees = 0;
  beforeAll(async () => {
    fixture = await createWorkspaceFixture();
    const root = fixture.git("rev-parse", "main").trim();
    base = fixture.commit(root, {
      "a/one.txt": "one\n",
      "a/two.txt": "two\n",
      "b/one.txt": "b\n",
      ".gitignore": "*.log\n",
    });
  });
  afterAll(() => fixture.dispose());

  const open = async (sha = base) => {
    trees += 1;
    const path = `trees/bld_x/wave-${trees}`;
    await fixture.open(path, sha, true);
    const write = (file: string, text: string) => {
      mkdirSync(dirname(fixture.at(path, file)), { recursive: true });
      writeFileSync(fixture.at(path, file), text);
    };
    const read = (file: string) => readFileSync(fixture.at(path, file), "utf8");
    const has = (file: string) => existsSync(fixture.at(path, file));
    const keep = (only: string[], ref: string) => fixture.keep(path, base, { only, ref: `refs/heads/${path}/${ref}` });
    const restore = (only: string[] | null) =>
      fixture.workspace.restorePaths({ projectId: project, guest: fixture.guest, treePath: path, base, only });
    return { path, at: (file: string) => fixture.at(path, file), write, read, has, keep, restore };
  };

  it("gives each task a commit with only its own paths: added, changed and deleted", async () => {
    const tree = await open();
    tree.write("a/one.txt", "changed\n");
    tree.write("a/deep/new.txt", "new\n");
    rmSync(tree.at("a/two.txt"));
    tree.write("b/one.txt", "also changed\n");
    tree.write("b/x.log", "ignored\n");
    const [a, b] = await Promise.all([tree.keep(["a/**"], "a"), tree.keep(["b/**"], "b")]);
    expect(a.changed.map(({ path, status }) => `${status} ${path}`)).toEqual([
      "added a/deep/new.txt",
      "modified a/one.txt",
      "deleted a/two.txt",
    ]);
    expect(fixture.filesOf(b.commit!)).toEqual({
      "a/one.txt": "one\n",
      "a/two.txt": "two\n",
      "b/one.txt": "also changed\n",
      ".gitignore": "*.log\n",
    });
    expect([a.refused, b.refused]).toEqual([[], []]);
    expect((await tree.keep(["a/**"], "a")).commit, "again is the same").toBe(a.commit);
    expect(await tree.keep(["c/**"], "c")).toEqual({ commit: null, changed: [], refused: [] });
  });

  it("moves a file out of another task's paths without that task's changes", async () => {
    const tree = await open();
    tree.write("c/one.txt", "one\n");
    rmSync(tree.at("a/one.txt"));
    const { changed } = await tree.keep(["c/**"], "c");
    expect(changed.map(({ path, status }) => `${status} ${path}`)).toEqual(["added c/one.txt"]);
  });

  it("names a large file or repository only for the task that owns its path", async () => {
    const tree = await open();
    tree.write("a/big.bin", "x".repeat(51 << 20));
    tree.write("b/inner/.git/HEAD", "ref: refs/heads/main\n");
    mkdirSync(tree.at("b/inner/.git/objects"), { recursive: true });
    mkdirSync(tree.at("b/inner/.git/refs"), { recursive: true });
    tree.write("b/inner/file.txt", "inside\n");
    tree.write("c/mine.txt", "mine\n");
    const own = await tree.keep(["c/**"], "c");
    expect([own.refused, own.changed.map(({ path }) => path)]).toEqual([[], ["c/mine.txt"]]);
    expect((await tree.keep(["a/**"], "a")).refused).toEqual([expect.stringContaining("a/big.bin: larger than")]);
    const b = await tree.keep(["b/**"], "b");
    expect(b.refused).toEqual([expect.stringContaining("b/inner: a git repository inside the tree")]);
    expect(b.changed.map(({ path }) => path)).toEqual(["b/inner/file.txt"]);
  });

  it("restores a task's own paths and leaves the others alone", async () => {
    const tree = await open();
    tree.write("a/one.txt", "broken\n");
    rmSync(tree.at("a/two.txt"));
    mkdirSync(tree.at("a/two.txt"));
    tree.write("a/two.txt/in-its-place.txt", "x");
    tree.write("a/new folder/-x 'quoted'.txt", "x");
    symlinkSync("/nowhere", tree.at("a/link"));
    tree.write("a/locked/file", "x");
    chmodSync(tree.at("a/locked"), 0o500);
    tree.write("a/inner/.git/HEAD", "ref: refs/heads/main\n");
    mkdirSync(tree.at("a/inner/.git/objects"), { recursive: true });
    mkdirSync(tree.at("a/inner/.git/refs"), { recursive: true });
    tree.write("a/x.log", "ignored");
    tree.write("b/one.txt", "in the middle of it\n");
    tree.write("b/new.txt", "new\n");
    await tree.restore(["a/**"]);
    expect([tree.read("a/one.txt"), tree.read("a/two.txt")]).toEqual(["one\n", "two\n"]);
    for (const gone of ["a/new folder", "a/link", "a/locked", "a/inner"]) expect(tree.has(gone), gone).toBe(false);
    expect([tree.read("b/one.txt"), tree.read("b/new.txt")]).toEqual(["in the middle of it\n", "new\n"]);
    expect(tree.read("a/x.log"), "what git ignores stays").toBe("ignored");
    expect((await tree.keep(["a/**"], "a")).commit).toBeNull();
    expect(await tree.restore(["a/**"])).toEqual([]);
    await tree.restore(null);
    expect(tree.read("b/one.txt")).toBe("b\n");
  });

  it("removes the empty folders that a killed restore left, and no others", async () => {
    const tree = await open();
    for (const folder of ["a/new/deep er", "b/new"]) mkdirSync(tree.at(folder), { recursive: true });
    await tree.restore(["a/**"]);
    expect(["a/new", "a", "b/new"].map(tree.has)).toEqual([false, true, true]);
  });

  it("keeps and restores against the wave's base, even if the tree was opened with others' work", async () => {
    const tree = await open(fixture.commit(base, { "b/one.txt": "joined before\n" }));
    tree.write("a/one.txt", "changed\n");
    const { changed } = await tree.keep(["a/**"], "a");
    expect(changed.map(({ path }) => path)).toEqual(["a/one.txt"]);
    await tree.restore(["a/**"]);
    expect([tree.read("a/one.txt"), tree.read("b/one.txt")]).toEqual(["one\n", "joined before\n"]);
  });

  it("restores nothing in a missing tree", async () => {
    expect(
      await fixture.workspace.restorePaths({
        projectId: project,
        guest: fixture.guest,
        treePath: "trees/bld_x/wave-none",
        base,
        only: ["a/**"],
      }),
    ).toEqual([]);
  });
});
