import { generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClients } from "../../src/forge/github/client.ts";
import { createGitHub } from "../../src/forge/github/github.ts";
import type { GitHubCredential, GitHubSettings } from "../../src/forge/settings.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";
import { type ForgeUnderTest, forgeContract } from "./forge.ts";

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
  publicKeyEncoding: { type: "spki", format: "pem" },
});

const forgeAt = (server: GitHubServer, credential: GitHubCredential | null, api = "") =>
  githubAt({ apiUrl: `${server.url}${api}`, webUrl: server.url, credential: () => credential });

const githubAt = (settings: GitHubSettings) => createGitHub(settings, createClients(settings), process.env);

async function start(credential: GitHubCredential, owner: string, api?: string): Promise<ForgeUnderTest> {
  const server = await createGitHubServer();
  let count = 0;
  return {
    forge: forgeAt(server, credential, api),
    newName: () => {
      count += 1;
      return `${owner}/app-${count}`;
    },
    writesFiles: true,
    async closeRequest({ name }, number) {
      server.state.find(name)!.pulls.find((pull) => pull.number === number)!.state = "closed";
    },
    commit: ({ name }, branch) => server.commit(name, { branch, path: "theirs.txt", text: "theirs\n" }),
    async counts({ name }) {
      const { pulls, checkRuns, statuses } = server.state.find(name)!;
      const comments = pulls.flatMap((pull) => pull.comments).length;
      return { requests: pulls.length, comments, checks: checkRuns.length + statuses.length };
    },
    stop: () => server.close(),
  };
}

forgeContract("github (token)", () => start({ kind: "token", token: usualToken }, "octo"));
forgeContract("github (App)", () => start({ kind: "app", appId: "7", privateKey }, "octo-org"));
forgeContract("github enterprise (App)", () => start({ kind: "app", appId: "7", privateKey }, "octo-org", "/api/v3"));

it("does not mistake somebody else's comment with our mark for ours", async () => {
  const server = await createGitHubServer();
  const forge = forgeAt(server, { kind: "token", token: usualToken });
  const { fullName, pulls } = await server.repository("octo/app");
  const pull = { title: "", body: "", head: "work", base: "main", state: "open" as const, merged: false };
  const body = "<!-- wavesmith:begin key -->\nfrom mallory\n<!-- wavesmith:end key -->";
  const comments = [{ id: 1, body, user: "mallory" }];
  pulls.push({ number: 1, ...pull, mergeSha: null, mergeable: true, queued: false, reviews: [], comments });
  const repository = { id: "1", name: fullName, gitUrl: "" };
  for (const text of ["one", "two"]) await forge.ensureComment({ repository, number: 1, key: "key", text });
  expect(comments.map(({ user }) => user)).toEqual(["mallory", "octo"]);
  expect(comments.map((comment) => comment.body.split("\n")[1])).toEqual(["from mallory", "two"]);
  await server.close();
});

describe("GitHub's failures", () => {
  let server: GitHubServer;
  beforeAll(async () => {
    server = await createGitHubServer();
    await server.repository("octo/app");
  });
  afterAll(() => server.close());

  const find = (forge = forgeAt(server, { kind: "token", token: usualToken })) =>
    forge.findRepository({ name: "octo/app", id: null });

  it("says that a revoked token is no longer valid, and never shows it", async () => {
    const forge = forgeAt(server, { kind: "token", token: "ghp_revokedRevokedRevoked" });
    const failure = await find(forge).catch((error: unknown) => error);
    expect(failure).toMatchObject({ fault: "unauthorized", remedy: expect.stringContaining("wavesmith github setup") });
    expect(JSON.stringify(failure) + String(failure)).not.toContain("ghp_");
  });

  it("says how long a primary and a secondary limit last", async () => {
    const reset = new Date(Date.now() + 3_600_000);
    server.rateLimit(reset);
    const primary = await find().catch((error: unknown) => error);
    server.rateLimit(null);
    expect(primary).toMatchObject({ fault: "rate-limited", retryable: true });
    expect((primary as { until: Date }).until.getTime()).toBeGreaterThan(Date.now() + 3_500_000);
    const answer = {
      status: 403,
      message: "You have exceeded a secondary rate limit.",
      headers: { "retry-after": "90" },
    };
    const fault = server.fault({ route: "GET /repos/{owner}/{repo}", when: "before", answer });
    const secondary = await find().catch((error: unknown) => error);
    fault.clear();
    expect(secondary).toMatchObject({ fault: "rate-limited" });
    expect((secondary as { until: Date }).until.getTime()).toBeLessThan(Date.now() + 95_000);
  });

  it("reads again after a failure of the server, and never repeats a write by itself", async () => {
    const answer = { status: 502, message: "Bad gateway" };
    const reads = server.fault({ route: "GET /repos/{owner}/{repo}", nth: 1, when: "before", answer });
    expect(await find()).toMatchObject({ name: "octo/app" });
    reads.clear();
    const writes = server.fault({ route: "POST /user/repos", when: "before", answer });
    const forge = forgeAt(server, { kind: "token", token: usualToken });
    const made = forge.ensureRepository({ name: "octo/new", isPrivate: true, description: "" });
    await expect(made).rejects.toMatchObject({ fault: "network" });
    expect(writes.seen()).toBe(1);
    writes.clear();
  });

  it("gets another token for an App when the old one has expired or was revoked, and before a push that may take long", async () => {
    const app = forgeAt(server, { kind: "app", appId: "7", privateKey });
    const isThere = async () => (await find(app))!.name;
    const minted = () => server.calls.filter(({ route }) => route.endsWith("/access_tokens")).length;
    const before = minted();
    expect(await isThere()).toBe("octo/app");
    expect(minted()).toBe(before + 1);
    for (const [token, user] of server.state.users) if (user.kind === "installation") server.state.revoke(token);
    expect(await isThere()).toBe("octo/app");
    expect(minted()).toBe(before + 2);
    const url = `${server.url}/octo/app.git`;
    const [first, second] = [await app.gitEnvironment(url), await app.gitEnvironment(url)];
    expect([second, minted()]).toEqual([first, before + 2]);
    server.state.installationTokenMs = 60_000;
    for (const [token, user] of server.state.users) if (user.kind === "installation") server.state.revoke(token);
    await isThere();
    expect(await app.gitEnvironment(url)).not.toEqual(await app.gitEnvironment(url));
    server.state.installationTokenMs = 3_600_000;
  });

  it("follows a repository that was renamed, by its id and by its old name", async () => {
    const forge = forgeAt(server, { kind: "token", token: usualToken });
    const { id } = (await server.repository("octo/old"))!;
    server.state.rename("octo/old", "octo/renamed");
    expect(await forge.findRepository({ name: "octo/old", id: String(id) })).toMatchObject({ name: "octo/renamed" });
    expect(await forge.findRepository({ name: "octo/old", id: null })).toMatchObject({ name: "octo/renamed" });
  });

  it("says who it is and what it may do", async () => {
    const forge = forgeAt(server, { kind: "token", token: usualToken });
    expect(await forge.identify()).toMatchObject({ kind: "token", login: "octo", rights: ["repo", "workflow"] });
    expect((await forge.identify()).rate).toMatchObject({ left: 4987, limit: 5000 });
    const app = forgeAt(server, { kind: "app", appId: "7", privateKey });
    expect(await app.identify()).toMatchObject({ kind: "app", login: "wavesmith-test" });
  });

  it("keeps what people write around our part of a request's text", async () => {
    const forge = forgeAt(server, { kind: "token", token: usualToken });
    const repository = (await find(forge))!;
    await server.commit("octo/app", { branch: "work", path: "a.txt", text: "a\n", from: "refs/heads/main" });
    const content = { repository, key: "k", branch: "work", base: "main", title: "T", number: null };
    await forge.ensureRequest({ ...content, body: "ours <!-- wavesmith:end k --> and more" });
    const pull = server.state.find("octo/app")!.pulls[0]!;
    pull.body = `Please look.\n${pull.body}\nThanks!`;
    await forge.ensureRequest({ ...content, body: "ours, newer" });
    expect(pull.body).toMatch(
      /^Please look\.\n<!-- wavesmith:begin k -->\nours, newer\n<!-- wavesmith:end k -->\nThanks!$/,
    );
  });
});
