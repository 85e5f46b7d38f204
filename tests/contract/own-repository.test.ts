import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DeliveryRequest, deliverBranch, wasDelivered } from "../../src/delivery/deliver-branch.ts";
import { nextCommands } from "../../src/delivery/next-commands.ts";
import { findOwnRepository, refuseUnusable } from "../../src/delivery/own-repository.ts";
import { commitUncommitted, listUncommitted } from "../../src/delivery/uncommitted.ts";

// A person's repository in every form that git supports, and a project's authority beside it.

const environment = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
const ada = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
const none: ReadonlySet<string> = new Set();
const date = new Date("2026-01-02T03:04:05Z");

let folder = "";
let repo = "";

const git = (cwd: string, ...args: string[]): string =>
  execFileSync("git", [...ada, "-c", "protocol.file.allow=always", ...args], {
    cwd,
    env: environment,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  }).trim();
const write = (path: string, text: string): void => writeFileSync(join(repo, path), text);
const find = async (path = repo) => (await findOwnRepository(path, environment))!;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "wavesmith-own-")));
  repo = join(folder, "repo");
  mkdirSync(join(repo, "packages", "api"), { recursive: true });
  git(repo, "init", "-q", "-b", "main");
  write("README.md", "one\n");
  write("packages/api/index.js", "1\n");
  write(".gitignore", "ignored\n");
  git(repo, "add", ".");
  git(repo, "commit", "-qm", "One");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the repository that a folder is in", () => {
  it("is found from a subfolder, with its branch and commit, and nowhere outside", async () => {
    const found = await find(join(repo, "packages/api"));
    expect(found).toMatchObject({ root: repo, gitDir: join(repo, ".git"), isBare: false, prefix: "packages/api/" });
    expect([found.branch, found.head]).toEqual(["main", git(repo, "rev-parse", "HEAD")]);
    expect(await findOwnRepository(folder, environment)).toBeNull();
    expect(await findOwnRepository(join(repo, ".git"), environment)).toBeNull();
  });

  it("may be bare, a worktree, detached, or without any commit", async () => {
    git(folder, "clone", "-q", "--bare", repo, "bare.git");
    expect(await find(join(folder, "bare.git"))).toMatchObject({ isBare: true, root: join(folder, "bare.git") });
    git(repo, "worktree", "add", "-q", "../tree", "-b", "feature");
    const tree = join(folder, "tree");
    expect(await find(tree)).toMatchObject({ root: tree, gitDir: join(repo, ".git"), branch: "feature" });
    git(tree, "checkout", "-q", "--detach");
    expect(await find(tree)).toMatchObject({ branch: null, head: git(repo, "rev-parse", "main") });
    mkdirSync(join(folder, "new"));
    git(join(folder, "new"), "init", "-q", "-b", "main");
    expect(await find(join(folder, "new"))).toMatchObject({ branch: "main", head: null });
  });

  it("is refused when its history is cut off or some of it is in another repository", async () => {
    await refuseUnusable(await find());
    git(folder, "clone", "-q", "--depth", "1", `file://${repo}`, "shallow");
    await expect(refuseUnusable(await find(join(folder, "shallow")))).rejects.toMatchObject({
      code: "unsupported",
      remedy: "git fetch --unshallow",
    });
    git(repo, "submodule", "--quiet", "add", join(folder, "shallow"), "lib");
    await expect(refuseUnusable(await find())).rejects.toThrow(`lib in ${repo} is a submodule`);
    await expect(find(join(repo, "lib"))).resolves.toMatchObject({ root: join(repo, "lib") });
  });
});

describe("uncommitted work", () => {
  it("is every changed or new file, except ignored and excluded ones", async () => {
    expect(await listUncommitted(await find(), none)).toEqual([]);
    write("README.md", "two\n");
    write("new name.txt", "new\n");
    write("plan.yaml", "name: x\n");
    write("ignored", "no\n");
    const files = await listUncommitted(await find(), new Set([join(repo, "plan.yaml")]));
    expect(files.map(({ state, path }) => `${state} ${path}`).sort()).toEqual(["?? new name.txt", "M README.md"]);
  });

  it("becomes a commit on top of HEAD, and leaves index, working tree and refs alone", async () => {
    write("README.md", "staged\n");
    git(repo, "add", "README.md");
    write("README.md", "two\n");
    write("new.txt", "new\n");
    rmSync(join(repo, "packages/api/index.js"));
    const before = [git(repo, "status", "--porcelain"), git(repo, "for-each-ref"), git(repo, "ls-files", "--stage")];
    const index = readFileSync(join(repo, ".git/index"));
    const commit = await commitUncommitted(await find());
    expect(git(repo, "ls-tree", "-r", "--name-only", commit).split("\n")).toEqual([
      ".gitignore",
      "README.md",
      "new.txt",
    ]);
    expect(git(repo, "show", `${commit}:README.md`)).toBe("two");
    expect(git(repo, "rev-parse", `${commit}^`)).toBe(git(repo, "rev-parse", "HEAD"));
    expect(git(repo, "log", "-1", "--format=%an", commit)).toBe("Wavesmith");
    expect(readFileSync(join(repo, ".git/index")).equals(index)).toBe(true);
    expect([git(repo, "status", "--porcelain"), git(repo, "for-each-ref"), git(repo, "ls-files", "--stage")]).toEqual(
      before,
    );
  });

  it("includes a file that changed right after a commit and kept its size", async () => {
    write("README.md", "two\n");
    const commit = await commitUncommitted(await find());
    expect(git(repo, "show", `${commit}:README.md`)).toBe("two");
  });

  it("is taken from a repository without a commit, and never from the middle of a conflict", async () => {
    const fresh = join(folder, "fresh");
    mkdirSync(fresh);
    git(fresh, "init", "-q");
    writeFileSync(join(fresh, "a"), "a\n");
    const commit = await commitUncommitted(await find(fresh));
    expect(git(fresh, "ls-tree", "--name-only", commit)).toBe("a");
    git(repo, "checkout", "-qb", "other");
    write("README.md", "other\n");
    git(repo, "commit", "-qam", "Other");
    git(repo, "checkout", "-q", "main");
    write("README.md", "main\n");
    git(repo, "commit", "-qam", "Main");
    expect(() => git(repo, "merge", "other")).toThrow();
    await expect(commitUncommitted(await find())).rejects.toMatchObject({ code: "usage" });
  });
});

describe("delivering a result", () => {
  let authority = "";
  let result = "";
  const branch = "wavesmith/shop";
  const tip = (name = branch): string => git(repo, "rev-parse", name);
  const deliver = async (more: Partial<DeliveryRequest> = {}) =>
    deliverBranch({
      repository: await find(),
      authority,
      result,
      branch,
      squash: null,
      asMe: false,
      date,
      ...more,
    });
  /** An agent's commit on top of the authority's main. */
  const build = (path: string): string => {
    const work = join(folder, `work-${path}`);
    git(folder, "clone", "-q", authority, work);
    writeFileSync(join(work, path), `${path}\n`);
    git(work, "add", ".");
    git(work, "-c", "user.name=Agent", "-c", "user.email=agent@example.com", "commit", "-qm", `Add ${path}`);
    git(work, "push", "-q", "origin", "HEAD:main");
    return git(work, "rev-parse", "HEAD");
  };
  beforeEach(() => {
    git(folder, "clone", "-q", "--bare", repo, "authority.git");
    authority = join(folder, "authority.git");
    result = build("a");
  });

  it("creates the branch and changes nothing that is checked out; doing it again changes nothing", async () => {
    write("README.md", "mine, not committed\n");
    const head = git(repo, "rev-parse", "HEAD");
    expect(await deliver()).toMatchObject({ outcome: "created", commit: result });
    expect([tip(), git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")]).toEqual([
      result,
      head,
      "M README.md",
    ]);
    expect(await deliver()).toMatchObject({ outcome: "unchanged" });
    expect(await wasDelivered(await find(), { authority, branch, result })).toBe(true);
    result = build("b");
    expect(await wasDelivered(await find(), { authority, branch, result })).toBe(false);
    expect(await deliver()).toMatchObject({ outcome: "moved", commit: result });
  });

  it("moves no branch with others' commits, and none that is checked out in any worktree", async () => {
    await deliver();
    git(repo, "worktree", "add", "-q", "../tree", branch);
    result = build("b");
    await expect(deliver()).rejects.toThrow(`${branch} is checked out in ${join(folder, "tree")}`);
    git(join(folder, "tree"), "commit", "-q", "--allow-empty", "-m", "By hand");
    git(join(folder, "tree"), "checkout", "-q", "--detach");
    const theirs = tip();
    await expect(deliver()).rejects.toMatchObject({
      code: "conflict",
      message: expect.stringContaining("not of this"),
    });
    expect(tip()).toBe(theirs);
    expect(await deliver({ branch: "wavesmith/other" })).toMatchObject({ outcome: "created" });
    git(repo, "branch", "-f", branch, result);
    git(repo, "checkout", "-q", branch);
    git(repo, "commit", "-q", "--allow-empty", "-m", "On top");
    expect(await deliver(), "a branch that has all of it may be anywhere").toMatchObject({ outcome: "contained" });
  });

  it("squashes into one commit by the person, the same each time, and fails without an identity", async () => {
    const squash = "shop: 1 task\n";
    await expect(deliver({ squash })).rejects.toThrow("git does not know who you are");
    git(repo, "config", "user.name", "Grace Höpper");
    git(repo, "config", "user.email", "grace@example.com");
    await deliver();
    const { commit, outcome } = await deliver({ squash });
    expect(outcome).toBe("moved");
    expect(git(repo, "log", "-1", "--format=%an|%ce|%s", branch)).toBe("Grace Höpper|grace@example.com|shop: 1 task");
    expect(git(repo, "rev-parse", `${commit}^`)).toBe(git(repo, "rev-parse", "main"));
    expect(git(repo, "rev-parse", `${commit}^{tree}`)).toBe(git(repo, "rev-parse", `${result}^{tree}`));
    expect(await deliver({ squash })).toMatchObject({ outcome: "unchanged", commit });
    expect(await wasDelivered(await find(), { authority, branch, result })).toBe(true);
    result = build("b");
    expect(await deliver({ squash })).toMatchObject({ outcome: "moved" });
    git(repo, "merge", "-q", result);
    await expect(deliver({ squash })).rejects.toThrow("in what is checked out already");
  });

  it("makes the person the committer of every commit if they ask for it; agents stay the authors", async () => {
    git(repo, "config", "user.name", "Grace Höpper");
    git(repo, "config", "user.email", "grace@example.com");
    result = build("b");
    const { commit } = await deliver({ asMe: true });
    expect(git(repo, "log", "--format=%an|%cn", `main..${branch}`).split("\n")).toEqual([
      "Agent|Grace Höpper",
      "Agent|Grace Höpper",
    ]);
    expect(git(repo, "rev-parse", `${commit}^{tree}`)).toBe(git(repo, "rev-parse", `${result}^{tree}`));
    expect(await deliver({ asMe: true })).toMatchObject({ outcome: "unchanged" });
  });

  it("refuses an invalid branch name, and one that conflicts with another branch", async () => {
    await expect(deliver({ branch: "a..b" })).rejects.toMatchObject({ code: "usage" });
    git(repo, "branch", "wavesmith");
    await expect(deliver()).rejects.toMatchObject({ code: "conflict", remedy: expect.stringContaining("--branch") });
  });

  it("says how to look at it, merge it and open a pull request at the remote's forge", async () => {
    const next = async (base: string | null, here = true) => nextCommands(await find(), { branch, base, here });
    expect(await next("main")).toEqual({
      look: `git diff main...${branch}`,
      merge: `git merge ${branch}`,
      pullRequest: null,
    });
    git(repo, "remote", "add", "up", "git@github.com:ada/shop.git");
    expect((await next("main")).pullRequest).toBe(
      `git push -u up ${branch} && gh pr create --head ${branch} --base main`,
    );
    expect(await next(null, false)).toMatchObject({ look: `git -C ${repo} diff HEAD...${branch}` });
    git(repo, "remote", "set-url", "up", "https://gitlab.example.com/ada/shop.git");
    expect((await next("main")).pullRequest).toContain(`glab mr create --source-branch ${branch} --target-branch main`);
  });
});
