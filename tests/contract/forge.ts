import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CheckReport, Forge, ForgeRepository } from "../../src/forge/port.ts";

export interface ForgeUnderTest {
  readonly forge: Forge;
  /** Returns the name of a repository that does not exist yet. */
  newName(): string;
  /** Closes a request, as a person. */
  closeRequest(repository: ForgeRepository, number: number): Promise<void>;
  /** Whether a person's commit is the file `theirs.txt`, with the line `theirs`. */
  readonly writesFiles: boolean;
  /** Commits to a branch, as a person; returns the commit. */
  commit(repository: ForgeRepository, branch: string): Promise<string>;
  counts(repository: ForgeRepository): Promise<{ requests: number; comments: number; checks: number }>;
  stop(): Promise<void>;
}

/** The behaviour of every forge, checked for one implementation of the port. */
export function forgeContract(name: string, start: () => Promise<ForgeUnderTest>): void {
  describe(`the ${name} forge`, () => {
    let under: ForgeUnderTest;
    let authority: string;
    const commits: string[] = [];
    const git = (...args: string[]): string =>
      execFileSync("git", ["-C", authority, ...args], { env })
        .toString()
        .trim();
    const env = {
      PATH: process.env.PATH ?? "",
      ...{ GIT_CONFIG_GLOBAL: "/dev/null", GIT_AUTHOR_NAME: "w", GIT_AUTHOR_EMAIL: "w@example.org" },
      ...{ GIT_COMMITTER_NAME: "w", GIT_COMMITTER_EMAIL: "w@example.org" },
    };

    beforeAll(async () => {
      authority = mkdtempSync(join(tmpdir(), "wavesmith-authority-"));
      git("init", "-q", "--bare");
      const tree = git("hash-object", "-t", "tree", "-w", "/dev/null");
      for (const message of ["base", "one", "two"]) {
        const parents = commits.length === 0 ? [] : ["-p", commits[commits.length - 1]!];
        commits.push(git("commit-tree", tree, "-m", message, ...parents));
      }
      under = await start();
    });
    afterAll(async () => {
      await under?.stop();
      rmSync(authority, { recursive: true, force: true });
    });

    const commitAt = (index: number): string => commits[index]!;

    /** A repository with a base, and a request for its own branch. */
    const delivered = async () => {
      const { forge, newName } = under;
      const repository = await forge.ensureRepository({ name: newName(), isPrivate: true, description: "A test" });
      await forge.pushBranch({ repository, gitDir: authority, sha: commitAt(0), branch: "main", expected: null });
      const push = { repository, gitDir: authority, branch: "wavesmith/bld_x/result" };
      await forge.pushBranch({ ...push, sha: commitAt(1), expected: null });
      const content = { repository, key: "bld_x/build", branch: push.branch, base: "main", title: "A build" };
      const made = await forge.ensureRequest({ ...content, body: "First", number: null });
      return { repository, push, content, made };
    };

    it("creates a repository once, and finds it", async () => {
      const { forge, newName } = under;
      const wanted = { name: newName(), isPrivate: true, description: "A test" };
      expect(await forge.findRepository({ name: wanted.name, id: null })).toBeNull();
      const made = await forge.ensureRepository(wanted);
      expect(made).toMatchObject({ name: wanted.name, defaultBranch: "main" });
      expect(await forge.ensureRepository(wanted)).toEqual(made);
      expect(await forge.findRepository({ name: wanted.name, id: made.id })).toEqual(made);
      expect(await forge.readBranch(made, "main")).toBeNull();
    });

    it("reads a file at a commit, a commit's parents, and the branch of a request", async () => {
      const { forge } = under;
      const { repository, push, made } = await delivered();
      const path = "theirs.txt";
      const sha = await under.commit(repository, "main");
      const file = { repository, sha, path, maxBytes: 100 };
      const isWritten = (await forge.readFile(file)) === "theirs\n";
      expect([isWritten, await forge.readFile({ ...file, path: "no/such.txt" })]).toEqual([under.writesFiles, null]);
      if (isWritten) await expect(forge.readFile({ ...file, maxBytes: 3 })).rejects.toMatchObject({ fault: "invalid" });
      expect(await forge.readCommit(repository, sha)).toEqual({ parents: [commitAt(0)], requestBranches: [] });
      const offered = { branch: push.branch, sha: commitAt(1), isOpen: true };
      expect(await forge.findOffered(repository, made.number)).toEqual(offered);
      expect(await forge.findOffered(repository, 999)).toBeNull();
      expect(await forge.isOurs("ada")).toBe(false);
    });

    it("pushes a branch, again without harm, and onward from its last push", async () => {
      const { forge } = under;
      const { repository, push } = await delivered();
      await forge.pushBranch({ ...push, sha: commitAt(1), expected: null });
      await forge.pushBranch({ ...push, sha: commitAt(2), expected: commitAt(1) });
      expect(await forge.readBranch(repository, push.branch)).toMatchObject({ sha: commitAt(2), isProtected: false });
    });

    it("leaves a branch alone if somebody else moved it", async () => {
      const { forge } = under;
      const { repository, push } = await delivered();
      const theirs = await under.commit(repository, push.branch);
      const again = forge.pushBranch({ ...push, sha: commitAt(2), expected: commitAt(1) });
      await expect(again).rejects.toMatchObject({
        fault: "rejected",
        message: expect.stringContaining(theirs.slice(0, 12)),
      });
      expect(await forge.readBranch(repository, push.branch)).toMatchObject({ sha: theirs });
    });

    it("opens one request for a key and updates it, even without knowing its number", async () => {
      const { forge } = under;
      const { repository, content, made } = await delivered();
      expect(made).toMatchObject({ state: "open", number: expect.any(Number) });
      expect(await forge.ensureRequest({ ...content, body: "Second", number: null })).toEqual(made);
      expect(await forge.ensureRequest({ ...content, body: "Third", number: made.number })).toEqual(made);
      expect((await under.counts(repository)).requests).toBe(1);
    });

    it("does not reopen a request that a person closed", async () => {
      const { repository, content, made } = await delivered();
      await under.closeRequest(repository, made.number);
      const again = under.forge.ensureRequest({ ...content, body: "Second", number: null });
      await expect(again).rejects.toMatchObject({ fault: "closed" });
      expect(await under.forge.readRequest(repository, made.number)).toMatchObject({ state: "closed" });
    });

    it("writes one comment for a key", async () => {
      const { repository, made } = await delivered();
      const comment = { repository, number: made.number, key: "bld_x/hello" };
      const first = await under.forge.ensureComment({ ...comment, text: "Hello" });
      expect((await under.forge.ensureComment({ ...comment, text: "Hello again" })).id).toBe(first.id);
      expect((await under.counts(repository)).comments).toBe(1);
    });

    it("reports one check for a key, and reads it with the request", async () => {
      const { repository, made } = await delivered();
      const annotations = [{ path: "a.ts", line: 3, level: "warning" as const, message: "Look at this" }];
      const report: CheckReport = {
        ...{ repository, sha: commitAt(1), key: "bld_x/wave-1/testing", name: "wavesmith/testing" },
        ...{ conclusion: "success", title: "12 tests passed", summary: "All good", annotations },
      };
      await under.forge.ensureCheck(report);
      await under.forge.ensureCheck(report);
      expect((await under.counts(repository)).checks).toBe(1);
      const state = await under.forge.readRequest(repository, made.number);
      expect(state).toMatchObject({ state: "open", headSha: commitAt(1), base: "main", review: "none" });
      expect(state.checks).toMatchObject([{ name: "wavesmith/testing", state: "passed" }]);
    });

    it("merges a request at the commit it was asked to, and only once", async () => {
      const { repository, made } = await delivered();
      const merge = { repository, number: made.number, queue: false };
      await expect(under.forge.mergeRequest({ ...merge, sha: commitAt(2) })).rejects.toMatchObject({
        fault: "rejected",
      });
      const merged = await under.forge.mergeRequest({ ...merge, sha: commitAt(1) });
      expect(merged).toMatchObject({ merged: true });
      expect(await under.forge.mergeRequest({ ...merge, sha: commitAt(1) })).toEqual(merged);
      expect(await under.forge.readRequest(repository, made.number)).toMatchObject({ state: "merged" });
    });

    it("gives git a credential for its own URLs only", async () => {
      expect(await under.forge.gitEnvironment("https://elsewhere.example/a/b.git")).toEqual({});
    });
  });
}
