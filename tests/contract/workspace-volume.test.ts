import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ExecSpec } from "../../src/sandbox/port.ts";
import { openTreeScript } from "../../src/workspace/trees/volume-scripts.ts";
import {
  createWorkspaceFixture,
  gitIn,
  project,
  type WorkspaceFixture,
  writeFiles,
} from "../support/workspace-fixture.ts";

const baseFiles = { "src/a.txt": "one\n", ".gitattributes": "* text eol=crlf\n", "b.txt": "b\r\n" };
let fixture: WorkspaceFixture;
let main: string;
let base: string;
beforeEach(async () => {
  fixture = await createWorkspaceFixture();
  main = fixture.git("rev-parse", "refs/heads/main");
  base = fixture.commit(main, baseFiles);
});
afterEach(() => fixture.dispose());

const sync = (sha: string) => fixture.workspace.syncVolume(project, fixture.guest, sha);
const headOfRepo = () => gitIn(fixture.at("repo"), "rev-parse", "HEAD");
const tree = "trees/bld_x/api.1";
const bundlesSent = () =>
  fixture.guest.execs.filter((spec) => spec.argv.some((arg) => arg.endsWith("/sync.bundle"))).length;

describe("the joined tree on the volume", () => {
  test("follows the authority, and keeps untracked files", async () => {
    await sync(base);
    expect(readFileSync(fixture.at("repo/src/a.txt"), "utf8")).toBe("one\n");
    writeFiles(fixture.at("repo"), { "notes.txt": "mine", "src/a.txt": "edited by somebody" });
    const next = fixture.commit(base, { "src/a.txt": null, "src/c.txt": "three\n" });
    await sync(next);
    expect(headOfRepo()).toBe(next);
    expect(existsSync(fixture.at("repo/src/a.txt"))).toBe(false);
    expect(readFileSync(fixture.at("repo/src/c.txt"), "utf8")).toBe("three\n");
    expect(readFileSync(fixture.at("repo/notes.txt"), "utf8")).toBe("mine");
    expect(await fixture.guest.list("sync")).toEqual([]);
  });

  test("costs one command if it exists, and restores edited and deleted files", async () => {
    await sync(base);
    rmSync(fixture.at("repo/src"), { recursive: true });
    const before = fixture.guest.execs.length;
    await sync(base);
    expect(fixture.guest.execs.length - before).toBe(1);
    expect(readFileSync(fixture.at("repo/src/a.txt"), "utf8")).toBe("one\n");
  });

  test("goes back to an older commit, or to an unrelated one", async () => {
    const next = fixture.commit(base, { "src/a.txt": "two\n" });
    await sync(next);
    await sync(base);
    expect(headOfRepo()).toBe(base);
    const stranger = fixture.commit(null, { z: "z" });
    await sync(stranger);
    expect(headOfRepo()).toBe(stranger);
  });

  test.each<[string, (repo: string) => void]>([
    ["lost", (repo) => rmSync(repo, { recursive: true })],
    ["without its .git", (repo) => rmSync(join(repo, ".git"), { recursive: true })],
    ["a file", (repo) => writeFileSync(join(repo, ".git", "HEAD"), "nonsense")],
    ["without objects", (repo) => rmSync(join(repo, ".git/objects"), { recursive: true })],
    ["with a ruined index", (repo) => truncateSync(join(repo, ".git/index"), 20)],
    ["left locked by a killed git", (repo) => writeFileSync(join(repo, ".git/index.lock"), "")],
    ["with a config that git refuses", (repo) => writeFileSync(join(repo, ".git/config"), "[core\n")],
  ])("that is %s is made good again", async (_, ruin) => {
    await sync(base);
    ruin(fixture.at("repo"));
    const next = fixture.commit(base, { "src/a.txt": "two\n" });
    await sync(next);
    expect(headOfRepo()).toBe(next);
    expect(gitIn(fixture.at("repo"), "fsck", "--connectivity-only")).toBe("");
    expect(readFileSync(fixture.at("repo/src/a.txt"), "utf8")).toBe("two\n");
    expect(bundlesSent()).toBeLessThanOrEqual(3);
  });

  test("is synced once at a time, even by many callers", async () => {
    const heads = Array.from({ length: 5 }, (_, index) => fixture.commit(base, { [`f${index}`]: "x" }));
    await Promise.all(heads.map(sync));
    expect(headOfRepo()).toBe(heads.at(-1));
  });

  test("a commit that the authority does not have is refused", async () => {
    await expect(sync("1".repeat(40))).rejects.toMatchObject({ code: "not-found" });
  });
});

describe("opening a tree", () => {
  test("gives every byte as it was committed, a clean git status, and one command in the sandbox", async () => {
    await sync(base);
    const before = fixture.guest.execs.length;
    await fixture.open(tree, base);
    expect(fixture.guest.execs.length - before).toBe(1);
    expect(fixture.guest.execs.at(-1)?.writable).toEqual([tree, expect.stringMatching(/^keep\/[0-9a-f]+$/)]);
    expect(readFileSync(fixture.at(tree, "b.txt"), "utf8")).toBe("b\r\n");
    expect(readFileSync(fixture.at(tree, "src/a.txt"), "utf8")).toBe("one\n");
    expect(gitIn(fixture.at(tree), "status", "--porcelain")).toBe("");
    expect(gitIn(fixture.at(tree), "rev-parse", "HEAD", "--abbrev-ref", "HEAD")).toBe(`${base}\ntask`);
    expect(gitIn(fixture.at(tree), "log", "--format=%H")).toBe(`${base}\n${main}`);
  });

  test("brings the commit to the volume first when it is missing there", async () => {
    await fixture.open(tree, base);
    expect(gitIn(fixture.at(tree), "rev-parse", "HEAD")).toBe(base);
    const next = fixture.commit(base, { c: "c" });
    await fixture.open("trees/bld_x/gate-1", next);
    expect(readFileSync(fixture.at("trees/bld_x/gate-1/c"), "utf8")).toBe("c");
    await expect(fixture.open(tree, "1".repeat(40))).rejects.toMatchObject({ code: "not-found" });
  });

  test("rebuilds a volume whose objects are damaged", async () => {
    await sync(base);
    rmSync(fixture.at("repo/.git/objects"), { recursive: true });
    await fixture.open(tree, base);
    expect(readFileSync(fixture.at(tree, "src/a.txt"), "utf8")).toBe("one\n");
    expect(gitIn(fixture.at("repo"), "rev-parse", "HEAD")).toBe(base);
  });

  test("lets an agent commit in its tree without affecting any other", async () => {
    await fixture.open(tree, base);
    await fixture.open("trees/bld_x/web.1", base);
    writeFiles(fixture.at(tree), { "src/a.txt": "two\n" });
    gitIn(fixture.at(tree), "commit", "-q", "-a", "-m", "Agent's own");
    gitIn(fixture.at(tree), "branch", "-f", "main", "HEAD");
    expect(gitIn(fixture.at("trees/bld_x/web.1"), "rev-parse", "HEAD")).toBe(base);
    expect(gitIn(fixture.at("repo"), "rev-parse", "HEAD")).toBe(base);
  });

  test("keeps an existing tree when it is to be reused, with the agent's .git gone or not", async () => {
    await fixture.open(tree, base);
    writeFiles(fixture.at(tree), { work: "mine" });
    await fixture.open(tree, base, true);
    expect(readFileSync(fixture.at(tree, "work"), "utf8")).toBe("mine");
    rmSync(fixture.at(tree, ".git"), { recursive: true });
    await fixture.open(tree, base, true);
    expect(readFileSync(fixture.at(tree, "work"), "utf8")).toBe("mine");
  });

  test("that was opened before a reboot is kept or created again, as the caller asks", async () => {
    const boot = () => readdirSync(fixture.at("keep")).map((name) => fixture.at("keep", name, "git/boot"))[0]!;
    await fixture.open(tree, base);
    expect(readFileSync(boot(), "utf8")).toBe(readFileSync("/proc/sys/kernel/random/boot_id", "utf8"));
    writeFiles(fixture.at(tree), { work: "mine" });
    await fixture.open(tree, base, "since-boot");
    expect(readFileSync(fixture.at(tree, "work"), "utf8")).toBe("mine");
    // As a power cut leaves it.
    for (const file of [fixture.at(tree, "src/a.txt"), fixture.at(tree, ".git/index")]) truncateSync(file);
    for (const left of ["4d5a-another-boot\n", ""]) {
      writeFileSync(boot(), left);
      await fixture.open(tree, base, true);
      expect(readFileSync(fixture.at(tree, "work"), "utf8")).toBe("mine");
    }
    await fixture.open(tree, base, "since-boot");
    expect(filesIn(tree)).toEqual(baseFiles);
    expect(await fixture.keep(tree, base)).toMatchObject({ commit: null, changed: [] });
  });

  test("creates a tree again if it is not to be reused", async () => {
    await fixture.open(tree, base);
    writeFiles(fixture.at(tree), { work: "mine", "locked/x": "1" });
    chmodSync(fixture.at(tree, "locked"), 0o500);
    await fixture.open(tree, base);
    expect(existsSync(fixture.at(tree, "work"))).toBe(false);
  });

  test.each([
    ["after that line", false],
    ["as that line's first program begins its work", true],
  ])("completes a tree whose opening was killed %s, and keeps nothing of it", async (_, first) => {
    await sync(base);
    for (const line of stepsOfOpening) {
      const [reopened, left] = [`trees/bld_x/reopened-${line}`, `trees/bld_x/left-${line}`];
      for (const path of [reopened, left]) await openUntilKilled(path, { line, first, reuse: true });
      await fixture.open(reopened, base, true);
      expect(filesIn(reopened), reopened).toEqual(baseFiles);
      expect(gitIn(fixture.at(reopened), "status", "--porcelain"), reopened).toBe("");
      const kept = await fixture.keep(left, base).catch((error: { code: string }) => error.code);
      if (kept !== "not-found") expect(kept, left).toMatchObject({ commit: null, changed: [] });
    }
  });

  test("completes a tree whose re-creation was killed, or leaves it as it was", async () => {
    await sync(base);
    for (const line of stepsOfOpening) {
      for (const first of [true, false]) {
        const path = `trees/bld_x/again-${line}-${first}`;
        await fixture.open(path, base);
        writeFiles(fixture.at(path), { work: "mine" });
        await openUntilKilled(path, { line, first, reuse: false });
        await fixture.open(path, base, true);
        expect([baseFiles, { ...baseFiles, work: "mine" }], path).toContainEqual(filesIn(path));
      }
    }
  });

  test("leaves dependency folders out of what git shows, but not where they are the project's own", async () => {
    const own = fixture.commit(base, { "src/venv/made.py": "x", "Cargo.toml": "" });
    await fixture.open(tree, own);
    writeFiles(fixture.at(tree), {
      "node_modules/a": "1",
      "x/__pycache__/b": "1",
      "target/o": "1",
      "src/venv/new.py": "1",
      "x/target": "1",
    });
    expect(gitIn(fixture.at(tree), "status", "--porcelain", "-uall")).toBe("?? src/venv/new.py\n?? x/target");
  });

  test("refuses a path that leaves the volume or is a symlink", async () => {
    await expect(fixture.open("trees/../../x", base)).rejects.toMatchObject({ code: "sandbox-path" });
    mkdirSync(fixture.at("trees"), { recursive: true });
    symlinkSync(fixture.folder, fixture.at("trees/link"));
    await expect(fixture.open("trees/link", base)).rejects.toMatchObject({ code: "git" });
    expect(existsSync(join(fixture.folder, ".git"))).toBe(false);
  });
});

const opening = openTreeScript.split("\n");
/** Its lines, except for the functions that it defines first. */
const stepsOfOpening = [...opening.keys()].slice(opening.findIndex((line) => line.startsWith("tree=$PWD")));

/**
 * Opens a tree with a script that is killed (-9) when it reaches the end of this line or, with
 * `first`, when a program that this line calls has created or removed the first of several things.
 */
async function openUntilKilled(
  path: string,
  { line, first, reuse }: { line: number; first: boolean; reuse: boolean },
): Promise<void> {
  const dying = `me=$$
mkdir() { for made; do case $made in -*) ;; *) command mkdir -p "$made"; kill -9 $me;; esac; done; }
empty() { rm -rf "$1"/s*; kill -9 $me; }`;
  const killed = [...opening.slice(0, line), first ? dying : "", opening[line], "kill -9 $$"].join("\n");
  const guest = {
    ...fixture.guest,
    exec: async (spec: ExecSpec) => {
      const [shell = "", flag = "", , ...rest] = spec.argv;
      // The end of a line may be in the middle of a loop.
      const isScript = (await fixture.guest.exec({ ...spec, argv: [shell, "-n", flag, killed] })).exitCode === 0;
      return fixture.guest.exec({ ...spec, argv: [shell, flag, isScript ? killed : ":", ...rest] });
    },
  };
  const open = fixture.workspace.openTree({ projectId: project, guest, treePath: path, sha: base, reuse });
  await open.catch(() => undefined); // It was killed.
}

const filesIn = (path: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(fixture.at(path), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(fixture.at(path).length + 1))
      .filter((name) => !name.startsWith(".git/"))
      .map((name) => [name, readFileSync(fixture.at(path, name), "utf8")]),
  );

describe("closing a tree", () => {
  test("removes it with its records, and does no harm if it is missing", async () => {
    await fixture.open(tree, base);
    writeFiles(fixture.at(tree), { "a/b/c": "1" });
    await fixture.keep(tree, base);
    chmodSync(fixture.at(tree, "a/b"), 0o000);
    await fixture.workspace.closeTree(fixture.guest, tree);
    await fixture.workspace.closeTree(fixture.guest, tree);
    expect(existsSync(fixture.at(tree))).toBe(false);
    expect(await fixture.guest.list("keep")).toEqual([]);
    await expect(fixture.keep(tree, base)).rejects.toMatchObject({ code: "not-found" });
  });
});
