import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkGitHub } from "../../src/cli/commands/doctor.ts";
import { pullRequestLines } from "../../src/cli/view/pull-request-lines.ts";
import { loadConfig } from "../../src/config.ts";
import type { PullRequestView } from "../../src/coordinator/build/build-view.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";
import { moment, view } from "./cli-views.ts";

describe("doctor about GitHub", () => {
  let server: GitHubServer;
  let dataDir: string;
  beforeAll(async () => {
    server = await createGitHubServer();
    dataDir = await mkdtemp(join(tmpdir(), "wavesmith-doctor-github-"));
  });
  afterAll(async () => {
    await server.close();
    await rm(dataDir, { recursive: true });
  });
  const look = (token: string, url = server.url) =>
    checkGitHub(
      loadConfig({
        WAVESMITH_DATA: dataDir,
        WAVESMITH_GITHUB_API: url,
        WAVESMITH_GITHUB_URL: url,
        WAVESMITH_GITHUB_TOKEN: token,
      }),
    );

  it("says whose token it is, what it may do and how many calls are left", async () => {
    const [check] = await look(usualToken);
    expect(check).toMatchObject({ name: "github", ok: true, remedy: null });
    expect(check!.detail).toMatch(/^token of octo: repo, workflow, \d+ of \d+ calls left this hour$/);
  });

  it("says how to sign in again when the token is bad", async () => {
    const [check] = await look("ghp_aTokenThatWasRevoked0123");
    expect(check).toMatchObject({ ok: false, needed: false, remedy: "sign in again: wavesmith github setup" });
    expect(check!.detail).toBe("GitHub answered 401 to GET /user: Bad credentials");
  });

  it("names the address that it cannot reach, within seconds", { timeout: 10_000 }, async () => {
    const [check] = await look(usualToken, "http://127.0.0.1:1");
    expect(check!.detail).toMatch(/^GitHub cannot be reached: /);
    expect(check!.remedy).toBe("see whether this machine reaches http://127.0.0.1:1, and look at WAVESMITH_GITHUB_API");
  });
});

it("shows each pull request with its address, what it waits for and what to do", () => {
  const usual = { repo: "octo/app", number: 7, url: "https://github.com/octo/app/pull/7", checks: [], commits: [] };
  const none = { problem: null, remedy: null, nextAt: null, mergeState: null };
  const lines = (given: Record<string, unknown>) =>
    pullRequestLines({ ...view(), pullRequests: [{ ...usual, ...none, ...given } as unknown as PullRequestView] }).map(
      ({ text }) => text,
    );
  const named = (state: string) => [`pull request 7 of octo/app: ${state}  https://github.com/octo/app/pull/7`];
  expect(lines({ status: "open", mergeState: "checks" })).toEqual(named("open, waiting for checks"));
  const failed = [{ name: "ci/build", state: "failed", url: null }];
  expect(lines({ status: "open", checks: failed })).toEqual(named("open, failed: ci/build"));
  expect(lines({ status: "merged" })).toEqual(named("merged"));
  const commit = { sha: "0".repeat(40), title: "Greet", author: "one", at: "2026-11-23T12:00:00.000Z" };
  const checks = [{ name: "ci/build", state: "passed", url: null }, ...failed];
  expect(lines({ status: "merged", commits: [commit], checks })).toEqual(
    named("merged (1 commit, 1 of 2 checks passed)"),
  );
  const stuck = { problem: "GitHub answered 401", remedy: "wavesmith github setup", nextAt: moment(0) };
  expect(lines({ status: "blocked", number: null, url: null, ...stuck })).toEqual([
    "pull request to octo/app: blocked",
    "  GitHub answered 401",
    "  wavesmith github setup",
  ]);
  expect(lines({ status: "waiting", ...stuck })[0]).toContain("not delivered yet, next try at 12:00 UTC");
});
