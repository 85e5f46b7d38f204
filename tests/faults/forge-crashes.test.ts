import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { crashPoints } from "../../src/coordinator/crash-points.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { createStore } from "../../src/store/store.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { checkRows, locksIn } from "../support/crash-checks.ts";
import { asked, type CrashPlace, crashCases, dieAt, processesOf } from "../support/crash-runs.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";

// Kills a process (SIGKILL) around a writing call to the forge, or in a transaction of a webhook;
// another one continues. tests/support/crash-runs.ts says how to try points by hand.

const program = await bundledProgram("forge-process");
const ofForges = /^(forge|ask-pull-request|settle-check|take-(closed|delivery|finding|review|thread))\./;
const around = (names: readonly string[]): string[] => names.flatMap((name) => [`${name}.before`, `${name}.after`]);
const writes = around(["POST /pulls", "PATCH /pulls", "POST /issues/comments"].map((name) => `http.${name}`));
/**
 * After a death at the GitHub call inside them, no process reaches the end of such a call again.
 */
const onceOnly = ["forge.ensureRepository.after", "forge.mergeRequest.after"];
/** Pushes of the base, of the branch, and of the branch's next commit. */
const pushes = around(["forge.pushBranch", "forge.pushBranch"]);
const shared = [...crashPoints.filter((point) => ofForges.test(point)), ...writes, ...pushes];
/** The last one requests a token, including a new one when the old one has expired. */
const appWrites = ["POST /check-runs", "POST /graphql", "POST /app/installations/access_tokens"].map(
  (name) => `http.${name}`,
);
/** How long such a token works here; one hour on GitHub. */
const tokenMs = 8_000;
const withoutRepository = (point: string): boolean => !point.startsWith("forge.ensureRepository");
const pointsOf = {
  token: [
    ...shared.filter((point) => !onceOnly.includes(point)),
    ...around(["http.POST /user/repos", "http.POST /statuses", "http.PUT /pulls/merge"]),
  ],
  // The repository exists and has a merge queue.
  app: [...shared.filter(withoutRepository), ...around(appWrites)],
};
const lives = (["token", "app"] as const).flatMap((kind) =>
  crashCases(pointsOf[kind], pointsOf[kind].length, 6).map(({ points, named }) => ({ kind, points, named })),
);
/** A normal run has one of the two lives. */
const cases = asked === "" ? [lives[Math.trunc(Date.now() / 1000) % lives.length]!] : lives;

const plan = {
  name: "delivered",
  network: "none",
  tasks: [{ id: "one", run: "echo 1 > one.txt" }],
  agents: { fixer: { runtime: "command", command: "cat > /dev/null; echo fixed >> one.txt" } },
  gates: { testing: { command: "echo 1..1; echo ok 1 - works" }, integration: false, maxFixRounds: 5 },
};

describe("a process that is killed at a call of the forge or in a webhook's transaction", () => {
  let server: GitHubServer;
  let folder: string;
  beforeAll(async () => {
    server = await createGitHubServer();
    // CI has to report on merged commits, also in a repository that we created.
    server.state.installationTokenMs = tokenMs;
    const { create } = server.state;
    server.state.create = async (name) => {
      const made = await create(name);
      made.requiredChecks.push("ci/build");
      return made;
    };
    folder = mkdtempSync(join(tmpdir(), "wavesmith-forge-"));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await server.close();
  });

  const tokenOf = () => ({ WAVESMITH_GITHUB_TOKEN: usualToken });
  const appOf = async (repo: string) => {
    Object.assign(await server.repository(repo), { hasMergeQueue: true, mergesQueued: true });
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const file = join(folder, "app.pem");
    writeFileSync(file, privateKey.export({ type: "pkcs8", format: "pem" }));
    return { WAVESMITH_GITHUB_APP_ID: "7", WAVESMITH_GITHUB_APP_KEY_FILE: file };
  };

  it.each(cases)(
    "is continued by another, with nothing made twice: $kind, $named",
    { timeout: 1_800_000 },
    async ({ kind, points }) => {
      const repo = `octo/${kind}`;
      const credential: Record<string, string> = kind === "app" ? await appOf(repo) : tokenOf();
      const fired = await dieAt(points, {
        program,
        more: {
          ...{ repo, token: usualToken },
          plan: { ...plan, deliver: { forge: "github", repo, merge: "when-green" } },
        },
        env: { ...credential, WAVESMITH_GITHUB_API: server.url, WAVESMITH_GITHUB_URL: server.url },
        test: "tests/faults/forge-crashes.test.ts",
        check: (place) => checkEnd(server, place, repo),
      });
      const own = new Set(pointsOf[kind]);
      expect(fired.filter((point) => own.has(point))).toEqual([...own].sort());
    },
  );
});

/** The state that every such build must end in, wherever it was killed. */
async function checkEnd(server: GitHubServer, { dataDir, project, database }: CrashPlace, repo: string): Promise<void> {
  const projectId = projectIdFor("default", project);
  const buildId = buildIdForEvent(`project/build.requested:${project}:0`);
  const store = createStore(database.pool);
  const made = server.state.repositories.filter(({ fullName }) => fullName === repo);
  expect(made).toHaveLength(1);
  const { pulls, statuses, checkRuns } = made[0]!;
  expect(pulls).toMatchObject([{ number: 1, merged: true }]);
  const comments = pulls.flatMap((pull) => pull.comments.map(({ body }) => /wavesmith:begin (\S+)/.exec(body)?.[1]));
  expect(comments.sort()).toEqual(["forge/command.given:command-1:0", "outsider/mallory"]);
  const checks = [
    ...statuses.map(({ sha, context }) => `${sha} ${context}`),
    ...checkRuns.map((run) => `${run.sha} ${run.name}`),
  ];
  const own = checks.filter((name) => name.includes("wavesmith/"));
  expect(own).toEqual([...new Set(own)]);
  const branches = (await server.git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads")).split("\n");
  expect(branches.sort()).toEqual(["main", `wavesmith/${buildId}/result`]);
  expect(await server.git(repo, "rev-list", "--count", "--grep=^Merge pull request", "main")).toBe("1");
  // The fixer has everything the webhooks said, each once: as a comment of a wave, or as a task.
  const tasks = await store.tasks.list({ buildId }, { by: "position" });
  const origins = (await store.comments.list({ buildId })).map(({ origin }) => origin);
  expect(origins).toEqual([...new Set(origins)]);
  expect(origins.length + tasks.length - plan.tasks.length).toBe(4);
  expect(tasks.map(({ status }) => status)).toEqual(tasks.map(() => "completed"));
  await checkRows(database, store);
  await expect.poll(() => processesOf(dataDir).map(({ text }) => text), { timeout: 20_000 }).toEqual([]);
  expect(locksIn(join(dataDir, "repositories", `${projectId}.git`))).toEqual([]);
}
