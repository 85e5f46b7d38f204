import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";

// Builds where people work: in their own git repositories.

const limitMs = 180_000;
const environment = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };

describe("a build typed in a person's repository", { timeout: limitMs }, () => {
  let place: CommandPlace;
  let repo = "";
  let below = "";
  const git = (...args: string[]): string =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], {
      cwd: repo,
      env: environment,
      encoding: "utf8",
    }).trim();
  const commit = (path: string, text: string): void => {
    writeFileSync(join(repo, path), text);
    git("add", "--all");
    git("commit", "-qm", `Write ${path}`);
  };
  /** A plan outside the repository, whose task writes one file in it. */
  const plan = (path: string, more: Record<string, unknown> = {}): string =>
    place.plan("shop", [{ id: "write", run: `echo '${path}' > packages/api/${path}` }], more);
  const build = (...words: string[]) => place.runIn(below, "build", ...words);

  beforeEach(() => {
    place = createCommandPlace({ GIT_CONFIG_GLOBAL: "/dev/null" });
    repo = join(place.folder, "repo");
    below = join(repo, "packages", "api");
    mkdirSync(below, { recursive: true });
    git("init", "-q", "-b", "main");
    writeFileSync(join(below, "index.js"), "1\n");
    commit("README.md", "one\n");
  });
  afterEach(() => place.close());

  it("starts from its commit and ends with a branch, in a subfolder as well, and changes nothing else", async () => {
    writeFileSync(
      join(below, "plan.json"),
      JSON.stringify({
        name: "shop",
        network: "none",
        tasks: [{ id: "write", run: "test -f README.md && cp packages/api/index.js packages/api/copy.js" }],
      }),
    );
    const head = git("rev-parse", "HEAD");
    const { code, text } = await build("plan.json");
    expect([code, text]).toEqual([0, expect.stringContaining(`source ${repo} at ${head.slice(0, 12)} (main)`)]);
    expect(text).toContain(`branch wavesmith/shop in ${repo} is new`);
    expect(text).toContain("  look:  git diff main...wavesmith/shop\n  merge: git merge wavesmith/shop\n");
    expect(git("diff", "--name-only", "main...wavesmith/shop")).toBe("packages/api/copy.js");
    expect([git("rev-parse", "HEAD"), git("status", "--porcelain")]).toEqual([head, "?? packages/api/plan.json"]);
    expect(existsSync(join(repo, ".wavesmith")), "the data directory is at the top").toBe(true);

    const result = git("rev-parse", "wavesmith/shop");
    const status = await place.runIn(repo, "status", "--json");
    const { buildId } = JSON.parse(status.text) as { buildId: string };
    git("config", "user.name", "Ada");
    git("config", "user.email", "ada@example.com");
    const delivered = await place.runIn(below, "deliver", "--squash", "--json");
    expect(JSON.parse(delivered.text)).toMatchObject({ buildId, branch: "wavesmith/shop", outcome: "moved" });
    expect(git("log", "--format=%an", "main..wavesmith/shop")).toBe("Ada");
    const again = await place.runIn(below, "resume", buildId);
    expect([again.code, again.text]).toEqual([0, expect.stringContaining("delivered to the branch wavesmith/shop")]);
    expect(git("log", "--format=%an", "main..wavesmith/shop"), "a resume delivers nothing twice").toBe("Ada");

    git("branch", "ahead", git("commit-tree", "-m", "On top", "-p", result, `${result}^{tree}`));
    const contained = await place.runIn(below, "deliver", "--branch", "ahead");
    expect(contained.text).toContain(`branch ahead in ${repo} already has all of it, and later commits: `);
    expect(contained.text).toContain(`  without those: wavesmith deliver ${buildId} --branch NAME\n`);
  });

  it("says how to bring a build from before the first commit into the repository", async () => {
    const begin = (name: string) =>
      place.runIn(repo, "build", place.plan("shop", [{ id: name, run: `echo ${name} > ${name}.txt` }]));
    git("checkout", "-q", "--orphan", "begin");
    git("rm", "-rfq", ".");
    expect((await begin("a")).text).toContain(`source ${repo} without a commit yet`);
    git("checkout", "-q", "main");
    const refused = await begin("b");
    expect(refused.code).toBe(1);
    expect(refused.text).toContain(`project shop was not built from a commit of ${repo}`);
    expect(refused.text).toContain("git merge --allow-unrelated-histories wavesmith/shop");
    git("merge", "-q", "--allow-unrelated-histories", "wavesmith/shop");
    const built = await begin("b");
    expect([built.code, built.text]).toEqual([0, expect.stringContaining("project shop begins from its source")]);
  });

  it("refuses uncommitted work, and includes it or leaves it out as asked", async () => {
    writeFileSync(join(repo, "README.md"), "two\n");
    writeFileSync(join(repo, "new.txt"), "new\n");
    const refused = await build(plan("a.txt"));
    expect([refused.code, refused.text]).toEqual([2, expect.stringContaining("2 uncommitted files")]);
    expect(refused.text).toContain("--include-uncommitted");
    const without = await build(plan("a.txt"), "--ignore-uncommitted");
    expect([without.code, without.text]).toEqual([0, expect.stringContaining("not read: 2 uncommitted files")]);
    expect(git("show", "wavesmith/shop:README.md")).toBe("one");
    const included = await build(plan("b.txt"), "--include-uncommitted");
    expect([included.code, included.text]).toEqual([0, expect.stringContaining("with your uncommitted work")]);
    expect(git("show", "wavesmith/shop:README.md")).toBe("two");
    expect(git("ls-tree", "-r", "--name-only", "wavesmith/shop").split("\n")).toEqual([
      "README.md",
      "new.txt",
      "packages/api/a.txt",
      "packages/api/b.txt",
      "packages/api/index.js",
    ]);
    expect(git("status", "--porcelain").split("\n").sort()).toEqual(["?? new.txt", "M README.md"]);
  });

  it("starts a later build from the repository's current commit, merges it when asked to, or says what it lacks", async () => {
    expect((await build(plan("a.txt"))).code).toBe(0);
    commit("README.md", "two\n");
    const behind = await build(plan("b.txt"));
    expect([behind.code, behind.text]).toEqual([0, expect.stringContaining("continues from its own main")]);
    expect(behind.text).toContain("Its source has 1 new commit");
    expect(git("show", "wavesmith/shop:README.md")).toBe("one");
    const merged = await build(plan("c.txt"), "--update-source");
    expect([merged.code, merged.text]).toEqual([0, expect.stringContaining("project shop merges its source")]);
    expect(git("show", "wavesmith/shop:README.md")).toBe("two");
    git("merge", "-q", "wavesmith/shop");
    commit("README.md", "three\n");
    const ahead = await build(plan("d.txt"));
    expect([ahead.code, ahead.text]).toEqual([0, expect.stringContaining("begins from its source, which has 1 new")]);
    expect(git("show", "wavesmith/shop:README.md")).toBe("three");
    commit("packages/api/d.txt", "theirs\n");
    const tip = git("rev-parse", "wavesmith/shop");
    const conflict = await build(plan("e.txt"), "--update-source");
    expect([conflict.code, conflict.text]).toEqual([1, expect.stringContaining("in packages/api/d.txt")]);
    expect(git("rev-parse", "wavesmith/shop")).toBe(tip);
    const takesTheirs = "sed -i '/^<<<<<<< /,/^=======$/d; /^>>>>>>> /d' packages/api/d.txt";
    const agents = { fixer: { runtime: "command", command: takesTheirs } };
    const resolved = await build(plan("e.txt", { agents }), "--update-source");
    expect([resolved.code, resolved.text]).toEqual([0, expect.stringContaining("conflicts in packages/api/d.txt")]);
    expect(resolved.text).toMatch(/wave 1: merge-source \(fixer\)\n/);
    expect(git("show", "wavesmith/shop:packages/api/d.txt")).toBe("theirs");
    expect(git("merge-base", "--is-ancestor", "main", "wavesmith/shop")).toBe("");
  });
});
