import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { createWorkspace } from "../../src/workspace/workspace.ts";
import { createWorkspaceFixture, project, someDate, type WorkspaceFixture } from "../support/workspace-fixture.ts";

let fixture: WorkspaceFixture;
let main: string;
beforeEach(async () => {
  fixture = await createWorkspaceFixture();
  main = fixture.git("rev-parse", "refs/heads/main");
});
afterEach(() => fixture.dispose());

const task = "refs/heads/wavesmith/bld_x/task/api/1";

describe("moving refs", () => {
  test("a missing ref is created only if it is expected to be missing", async () => {
    const { workspace } = fixture;
    const next = fixture.commit(main, { a: "1" });
    expect(await workspace.moveRef(project, task, next, main)).toBe(false);
    expect(await workspace.resolve(project, task)).toBeNull();
    expect(await workspace.moveRef(project, task, next, null)).toBe(true);
    expect(await workspace.resolve(project, task)).toBe(next);
  });

  test("a ref moves only from its expected commit", async () => {
    const { workspace } = fixture;
    const one = fixture.commit(main, { a: "1" });
    const two = fixture.commit(main, { a: "2" });
    await workspace.moveRef(project, task, one, null);
    expect(await workspace.moveRef(project, task, two, null)).toBe(false);
    expect(await workspace.moveRef(project, task, two, main)).toBe(false);
    expect(await workspace.resolve(project, task)).toBe(one);
    expect(await workspace.moveRef(project, task, two, one)).toBe(true);
    expect(await workspace.moveRef(project, task, two, one), "it is there already").toBe(true);
    expect(await workspace.resolve(project, task)).toBe(two);
  });

  test("exactly one of many simultaneous moves from two workspaces wins", async () => {
    const other = createWorkspace({ dataDir: fixture.dataDir, env: process.env });
    const heads = Array.from({ length: 8 }, (_, index) => fixture.commit(main, { a: `${index}` }));
    const won = await Promise.all(
      heads.map((head, index) => (index % 2 ? other : fixture.workspace).moveRef(project, task, head, null)),
    );
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await other.resolve(project, task)).toBe(heads[won.indexOf(true)]);
  });

  test("a lock that a killed git left behind is removed when it is old", async () => {
    const lock = `${join(fixture.workspace.repositoryPath(project), "refs/heads/main")}.lock`;
    writeFileSync(lock, "");
    utimesSync(lock, 1, 1);
    const next = fixture.commit(main, { a: "1" });
    expect(await fixture.workspace.moveRef(project, "refs/heads/main", next, main)).toBe(true);
    expect(existsSync(lock)).toBe(false);
  });

  test.each(["main", "refs/heads/../x", "refs/heads/a b", "--stdin"])("the name %j is refused", async (ref) => {
    await expect(fixture.workspace.moveRef(project, ref, main, null)).rejects.toThrow(/not a valid ref name/);
  });

  test("a ref never points at a missing commit", async () => {
    await expect(fixture.workspace.moveRef(project, task, "1".repeat(40), null)).rejects.toThrow(/could not be moved/);
    await expect(fixture.workspace.moveRef(project, task, "main", null)).rejects.toThrow(/not a commit's SHA/);
  });
});

describe("reading the authority", () => {
  test("a missing commit resolves to null, even without a repository", async () => {
    expect(await fixture.workspace.resolve(project, "refs/heads/none")).toBeNull();
    expect(await fixture.workspace.resolve("proj_none" as ProjectId, "refs/heads/main")).toBeNull();
    expect(await fixture.workspace.resolve(project, "--all")).toBeNull();
    expect(() => fixture.workspace.repositoryPath("../x" as ProjectId)).toThrow(/project's id/);
  });

  test("ancestry is detected in both directions", async () => {
    const next = fixture.commit(main, { a: "1" });
    expect(await fixture.workspace.isAncestor(project, main, next)).toBe(true);
    expect(await fixture.workspace.isAncestor(project, next, main)).toBe(false);
    await expect(fixture.workspace.isAncestor(project, next, "1".repeat(40))).rejects.toThrow(/git merge-base/);
  });

  test("files are listed with modes and sizes, and read up to a limit", async () => {
    const odd = 'say "hi"\n-there';
    const head = fixture.commit(main, { [odd]: "12345", "dir/b": "" });
    expect(await fixture.workspace.listFiles(project, head)).toEqual([
      { path: "dir/b", mode: "100644", sizeBytes: 0 },
      { path: odd, mode: "100644", sizeBytes: 5 },
    ]);
    expect((await fixture.workspace.readBlob(project, head, odd))?.toString()).toBe("12345");
    expect((await fixture.workspace.readBlob(project, head, "dir/b"))?.length).toBe(0);
    expect(await fixture.workspace.readBlob(project, head, odd, { maxBytes: 4 })).toBeNull();
    expect(await fixture.workspace.readBlob(project, head, "dir")).toBeNull();
    expect(await fixture.workspace.readBlob(project, head, "none")).toBeNull();
  });

  test("a diff longer than the limit ends at a line with a note", async () => {
    const lines = Array.from({ length: 2000 }, (_, index) => `line ${index}\n`).join("");
    const head = fixture.commit(main, { a: lines, "b[1].txt": "two\n" });
    const cut = await fixture.workspace.diff(project, main, head, { maxBytes: 1000 });
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(1000);
    expect(cut).toMatch(/\n\+line \d+\n\[diff truncated at 1000 bytes\]\n$/);
    const some = await fixture.workspace.diff(project, main, head, { paths: ["b[1].txt"] });
    expect(some).toContain("+two");
    expect(some).not.toContain("+line");
  });

  test("a diff can leave out files at any depth", async () => {
    const files = { "new.txt": "new\n", "yarn.lock": "locked\n", "sub/go.sum": "summed\n", "sub/[a]": "odd\n" };
    const head = fixture.commit(main, files);
    const except = ["**/*.lock", "**/go.sum"];
    const read = await fixture.workspace.diff(project, main, head, { except });
    expect(read).toContain("+new");
    expect(read).toContain("+odd");
    expect(read).not.toMatch(/\+(locked|summed)/);
    const one = await fixture.workspace.diff(project, main, head, { paths: ["sub/[a]", "yarn.lock"], except });
    expect(one).toContain("+odd");
    expect(one).not.toMatch(/\+(new|locked)/);
  });

  test("renames, deletions and changes of type are distinguished", async () => {
    const text = "a long enough text\nwith several lines\nto be known again\n";
    const from = fixture.commit(main, { old: text, gone: "x", same: "y", changed: "1\n" });
    const to = fixture.commit(from, { old: null, new: text, gone: null, changed: "1\n2\n" });
    expect(await fixture.workspace.changedFiles(project, from, to)).toEqual([
      { path: "changed", status: "modified", from: null, addedLines: 1, deletedLines: 0, binary: false },
      { path: "gone", status: "deleted", from: null, addedLines: 0, deletedLines: 1, binary: false },
      { path: "new", status: "renamed", from: "old", addedLines: 0, deletedLines: 0, binary: false },
    ]);
  });
});

describe("the host's git", () => {
  test("neither a person's configuration nor a planted hook changes what it does", async () => {
    const marker = join(fixture.folder, "marker");
    const hook = join(fixture.workspace.repositoryPath(project), "hooks", "reference-transaction");
    mkdirSync(join(hook, ".."), { recursive: true });
    writeFileSync(hook, `#!/bin/sh\ntouch ${marker}\n`);
    chmodSync(hook, 0o755);
    const env = {
      ...process.env,
      GIT_DIR: "/nowhere",
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "core.hooksPath",
      GIT_CONFIG_VALUE_0: "hooks",
    };
    const workspace = createWorkspace({ dataDir: fixture.dataDir, env });
    expect(await workspace.moveRef(project, task, main, null)).toBe(true);
    expect(existsSync(marker)).toBe(false);
  });

  test("a git that is missing or too old is named with its remedy", async () => {
    const without = createWorkspace({ dataDir: fixture.dataDir, env: { PATH: "/nowhere" } });
    await expect(without.resolve(project, "refs/heads/main")).rejects.toMatchObject({ code: "environment" });
    const bin = join(fixture.folder, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "git"), "#!/bin/sh\necho git version 2.37.9\n", { mode: 0o755 });
    const old = createWorkspace({ dataDir: fixture.dataDir, env: { PATH: bin } });
    const failure = {
      code: "environment",
      remedy: expect.stringContaining("2.38"),
      message: expect.stringContaining("2.37.9"),
    };
    await expect(old.resolve(project, "refs/heads/main")).rejects.toMatchObject(failure);
  });
});

describe("two processes", () => {
  test("agree on the main of a project that they prepare at the same time", async () => {
    const source = join(import.meta.dirname, "../../src/workspace/workspace.ts");
    const script = `
      import { createWorkspace } from ${JSON.stringify(source)};
      const workspace = createWorkspace({ dataDir: ${JSON.stringify(fixture.dataDir)} });
      const mains = await Promise.all(["proj_a", "proj_b"].map((id) => workspace.prepare(id, { kind: "empty" }, new Date())));
      console.log(mains.join(" "));`;
    const outputs = await Promise.all([runTypeScript(script), runTypeScript(script)]);
    expect(outputs[0]).toBe(outputs[1]);
    expect(outputs[0]).toBe(`${main} ${main}`);
    expect(await fixture.workspace.prepare(project, { kind: "empty" }, someDate)).toBe(main);
  });
});

function runTypeScript(script: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      cwd: join(import.meta.dirname, "../.."),
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve(output.trim()) : reject(new Error(`exit code ${code}`))));
  });
}
