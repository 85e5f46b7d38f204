import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Plan } from "../../src/domain/plan/plan.ts";
import { sourceFolderRef } from "../../src/workspace/port.ts";
import { createWorkspace } from "../../src/workspace/workspace.ts";
import {
  createWorkspaceFixture,
  gitIn,
  project,
  someDate,
  type WorkspaceFixture,
  writeFiles,
} from "../support/workspace-fixture.ts";

let fixture: WorkspaceFixture;
let source: string;
beforeEach(async () => {
  fixture = await createWorkspaceFixture({ prepared: false });
  source = join(fixture.folder, "source");
  mkdirSync(source);
});
afterEach(() => fixture.dispose());

const prepare = (from: Plan["source"]) => fixture.workspace.prepare(project, from, someDate);
const fromSource = () => prepare({ kind: "path", path: source });

function makeRepository(files: Record<string, string>): string {
  gitIn(source, "init", "-q", "--initial-branch=trunk");
  writeFiles(source, files);
  gitIn(source, "add", "-A");
  gitIn(source, "commit", "-q", "-m", "First");
  return gitIn(source, "rev-parse", "HEAD");
}

describe("an empty source", () => {
  test("begins with an empty root commit that is the same everywhere", async () => {
    const main = await prepare({ kind: "empty" });
    expect(main).toBe("1c3703b3f34f4f60cabfafa6a07689e0e8b4952e");
    expect(fixture.git("log", "--format=%an|%ae|%at|%s", "refs/heads/main")).toBe(
      "Wavesmith|wavesmith@localhost|946684800|Begin",
    );
    expect(await fixture.workspace.listFiles(project, main)).toEqual([]);
    expect(fixture.git("symbolic-ref", "HEAD")).toBe("refs/heads/main");
  });

  test("a project with a main keeps it, whatever the source says", async () => {
    const main = await prepare({ kind: "empty" });
    const next = fixture.commit(main, { a: "1" });
    await fixture.workspace.moveRef(project, "refs/heads/main", next, main);
    writeFiles(source, { b: "2" });
    expect(await fromSource()).toBe(next);
    expect(await prepare({ kind: "path", path: "/nowhere" })).toBe(next);
  });
});

describe("a source of a project that has a main", () => {
  const compare = (from: Plan["source"]) => fixture.workspace.compareSource(project, from);
  const folder = (): Plan["source"] => ({ kind: "path", path: source });

  test("is compared by its history: nothing new, ahead of main, diverged from it, or unrelated", async () => {
    expect(await compare(folder())).toBeNull();
    const first = makeRepository({ a: "1" });
    await fromSource();
    expect(await compare(folder())).toMatchObject({ relation: "same", commits: 0, commit: first });
    writeFiles(source, { b: "2" });
    gitIn(source, "add", "-A");
    gitIn(source, "commit", "-q", "-m", "Second");
    const second = gitIn(source, "rev-parse", "HEAD");
    expect(await compare(folder())).toMatchObject({ relation: "ahead", commits: 1, main: first, commit: second });
    const built = fixture.commit(first, { c: "3" });
    await fixture.workspace.moveRef(project, "refs/heads/main", built, first);
    expect(await compare(folder())).toMatchObject({ relation: "diverged", commits: 1, main: built });
    expect(await compare({ kind: "empty" })).toMatchObject({ relation: "none", commit: null });
    gitIn(source, "checkout", "-q", "--orphan", "other");
    gitIn(source, "commit", "-q", "-m", "Another beginning");
    expect(await compare(folder())).toMatchObject({ relation: "unrelated" });
    expect(fixture.git("for-each-ref", "--format=%(refname)"), "nothing is left of it").toBe("refs/heads/main");
  });

  test("that is a plain folder gets a commit on top of the last one, so that it can be merged", async () => {
    writeFiles(source, { a: "1", kept: "k" });
    const first = await fromSource();
    expect(await compare(folder())).toMatchObject({ relation: "same", commit: first, isFolder: true });
    const built = fixture.commit(first, { c: "3" });
    await fixture.workspace.moveRef(project, "refs/heads/main", built, first);
    writeFiles(source, { a: "2" });
    const state = await compare(folder());
    expect(state).toMatchObject({ relation: "diverged", commits: 1, isFolder: true });
    expect(fixture.git("rev-parse", `${state!.commit}^`)).toBe(first);
    expect(await compare(folder()), "the same files give the same commit").toEqual(state);
    await fixture.workspace.moveRef(project, sourceFolderRef, state!.commit!, null);
    writeFiles(source, { a: "3" });
    const next = await compare(folder());
    expect(fixture.git("rev-parse", `${next!.commit}^`)).toBe(state!.commit);
  });
});

describe("a plain folder", () => {
  test("becomes one root commit of its files, without ignored ones, dependencies and our own data", async () => {
    writeFiles(source, {
      "src/a.ts": "a\r\n",
      ".gitignore": "dist\n",
      "dist/x": "1",
      "node_modules/m/i.js": "1",
      ".wavesmith/db/x": "1",
    });
    writeFiles(source, { ".gitattributes": "* text eol=lf\n" });
    symlinkSync("src/a.ts", join(source, "link"));
    const main = await fromSource();
    expect(fixture.filesOf(main)).toEqual({
      ".gitattributes": "* text eol=lf\n",
      ".gitignore": "dist\n",
      link: "src/a.ts",
      "src/a.ts": "a\r\n",
    });
    expect(readdirSync(source).sort()).toEqual([
      ".gitattributes",
      ".gitignore",
      ".wavesmith",
      "dist",
      "link",
      "node_modules",
      "src",
    ]);
  });

  test("with the same content gives the same SHA in any data directory, which may lie in the folder", async () => {
    writeFiles(source, { a: "1" });
    const main = await fromSource();
    const inside = createWorkspace({ dataDir: join(source, "my data") });
    expect(await inside.prepare(project, { kind: "path", path: source }, new Date(1))).toBe(main);
  });

  test("that is missing is reported with its path", async () => {
    const failure = { code: "not-found", message: expect.stringContaining("/nowhere/at/all") };
    await expect(prepare({ kind: "path", path: "/nowhere/at/all" })).rejects.toMatchObject(failure);
  });

  test("with a repository inside is refused by name", async () => {
    writeFiles(source, { a: "1" });
    mkdirSync(join(source, "inner"));
    gitIn(join(source, "inner"), "init", "-q");
    gitIn(join(source, "inner"), "commit", "-q", "--allow-empty", "-m", "x");
    await expect(fromSource()).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("inner"),
    });
  });
});

describe("a git repository", () => {
  test("gives its HEAD and history, without uncommitted changes and other branches", async () => {
    const first = makeRepository({ a: "1" });
    gitIn(source, "branch", "other");
    gitIn(source, "tag", "v1");
    writeFiles(source, { a: "2", b: "3" });
    gitIn(source, "commit", "-q", "-a", "-m", "Second");
    writeFiles(source, { a: "not committed" });
    const main = await fromSource();
    expect(main).toBe(gitIn(source, "rev-parse", "HEAD"));
    expect(fixture.git("rev-parse", `${main}^`)).toBe(first);
    expect(fixture.filesOf(main)).toEqual({ a: "2" });
    expect(fixture.git("for-each-ref", "--format=%(refname)")).toBe("refs/heads/main");
  });

  test("may be bare, a linked worktree, or on no branch", async () => {
    const head = makeRepository({ a: "1" });
    gitIn(source, "checkout", "-q", "--detach");
    const bare = join(fixture.folder, "bare.git");
    gitIn(source, "clone", "-q", "--bare", source, bare);
    const linked = join(fixture.folder, "linked");
    gitIn(source, "worktree", "add", "-q", "-b", "linked", linked);
    gitIn(linked, "commit", "-q", "--allow-empty", "-m", "Linked");
    for (const [id, path] of [
      ["proj_a", source],
      ["proj_b", bare],
      ["proj_c", linked],
    ] as const) {
      const main = await fixture.workspace.prepare(id as typeof project, { kind: "path", path }, someDate);
      expect(main).toBe(path === linked ? gitIn(linked, "rev-parse", "HEAD") : head);
    }
  });

  test("by URL gives the branch, tag or commit asked for", async () => {
    const head = makeRepository({ a: "1" });
    gitIn(source, "tag", "-a", "-m", "tag", "v1");
    gitIn(source, "commit", "-q", "--allow-empty", "-m", "Later");
    const url = `file://${source}`;
    const of = (id: string, ref: string | null) =>
      fixture.workspace.prepare(id as typeof project, { kind: "git", url, ref }, someDate);
    expect(await of("proj_a", "v1")).toBe(head);
    expect(await of("proj_b", "trunk")).toBe(gitIn(source, "rev-parse", "HEAD"));
    expect(await of("proj_c", null)).toBe(gitIn(source, "rev-parse", "HEAD"));
    await expect(of("proj_d", "none")).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining("has no none"),
    });
    await expect(of("proj_d", "--upload-pack=x")).rejects.toMatchObject({ code: "usage" });
  });

  test("without a commit, truncated, or at a dead address is refused with a reason", async () => {
    gitIn(source, "init", "-q");
    await expect(fromSource()).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining("has no commit"),
    });
    makeRepository({ a: "1" });
    gitIn(source, "commit", "-q", "--allow-empty", "-m", "Later");
    const shallow = join(fixture.folder, "shallow");
    gitIn(source, "clone", "-q", "--depth", "1", `file://${source}`, shallow);
    await expect(prepare({ kind: "path", path: shallow })).rejects.toMatchObject({
      code: "unsupported",
      remedy: expect.stringContaining("--unshallow"),
    });
    await expect(prepare({ kind: "git", url: "ext::sh -c touch% /tmp/never", ref: null })).rejects.toMatchObject({
      code: "git",
    });
    await expect(prepare({ kind: "git", url: "--upload-pack=touch /tmp/never", ref: null })).rejects.toMatchObject({
      code: "git",
    });
  });

  test("with submodules or LFS files is refused by name", async () => {
    makeRepository({ a: "1" });
    gitIn(source, "update-index", "--add", "--cacheinfo", `160000,${gitIn(source, "rev-parse", "HEAD")},libs/dep`);
    gitIn(source, "commit", "-q", "-m", "Submodule");
    await expect(fromSource()).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("libs/dep"),
    });
    gitIn(source, "rm", "-q", "--cached", "libs/dep");
    writeFiles(source, { "assets/.gitattributes": "# big ones\n*.psd filter=lfs diff=lfs merge=lfs -text\n" });
    gitIn(source, "add", "-A");
    gitIn(source, "commit", "-q", "-m", "LFS");
    await expect(fromSource()).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("assets/.gitattributes"),
    });
  });
});

test("repeats a prepare that was killed", async () => {
  writeFiles(source, { a: "1" });
  let killed = 0;
  const crashing = createWorkspace({
    dataDir: fixture.dataDir,
    env: process.env,
    crashPoint: (name) => {
      killed += 1;
      throw new Error(`killed at ${name}`);
    },
  });
  await expect(crashing.prepare(project, { kind: "path", path: source }, someDate)).rejects.toThrow(
    "killed at prepare.made",
  );
  expect(killed).toBe(1);
  expect(await fixture.workspace.resolve(project, "refs/heads/main")).toBeNull();
  expect(fixture.filesOf(await fromSource())).toEqual({ a: "1" });
  expect(readdirSync(join(fixture.dataDir, "repositories", ".scratch"))).toEqual([]);
});

test("half-made files of a dead process are removed", async () => {
  mkdirSync(join(fixture.dataDir, "repositories", ".scratch", "4194304-dead"), { recursive: true });
  mkdirSync(join(fixture.dataDir, "repositories", ".scratch", `${process.pid}-alive`));
  await prepare({ kind: "empty" });
  expect(readdirSync(join(fixture.dataDir, "repositories", ".scratch"))).toEqual([`${process.pid}-alive`]);
});
