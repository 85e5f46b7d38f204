import { setTimeout as pause } from "node:timers/promises";
import { Pool } from "pg";
import { type App, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { askDuePullRequests } from "../../src/coordinator/forge/pull-request.ts";
import { takeDelivery } from "../../src/coordinator/outside/take-delivery.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { removeSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import type { BuildRow, PullRequestRow } from "../../src/store/port.ts";
import type { OutsideFact } from "../../src/webhooks/port.ts";
import { createDeath, say } from "./crash-death.ts";
import type { CrashInput } from "./crash-runs.ts";

// One process of a build that delivers to GitHub, which answers with webhooks. It starts or
// continues the build, and kills itself at the first crash point of those it is given. Each writing
// call to GitHub's API is a crash point, too: `http.<method> <path>`. Prints one JSON object per
// line.

export interface ForgeProcessInput extends CrashInput {
  readonly plan: Record<string, unknown>;
  readonly repo: string;
  /** The token that CI reports with. */
  readonly token: string;
}

const database = new Pool({ connectionString: process.env.DATABASE_URL, max: 1 });
const plainFetch = globalThis.fetch;

async function main({ plan, repo, token, ...input }: ForgeProcessInput): Promise<void> {
  const { project } = input;
  const { reach, fired } = createDeath(input);
  reachAroundWrites(repo, reach);
  const projectId = projectIdFor("default", project);
  const eventId = `project/build.requested:${project}:0`;
  const buildId = buildIdForEvent(eventId);
  const config = loadConfig(process.env);
  const app = await createApp({ config, crashPoint: reach, warn: (message) => say({ type: "warning", message }) });
  await app.start(new Set([projectId]));
  if ((await app.store.builds.find({ id: buildId })) === null)
    await app.send({ name: "project/build.requested", id: eventId, data: { projectId, project, plan } });
  let build: BuildRow | null = null;
  for (;;) {
    await pause(50);
    build = await app.store.builds.find({ id: buildId });
    const request = await app.store.pullRequests.find({ buildId });
    if (build?.status !== "completed" || request === null || !(await isIdle(app))) continue;
    if (request.status === "merged") break;
    await answerAsGitHub(app, request, token);
  }
  const { sandboxDriver } = build;
  const guest = async () => (await app.ports.driver(sandboxDriver).find(projectId as never))?.guest;
  // The last steps close a tree and forget its job.
  while (((await (await guest())?.listJobs()) ?? []).length > 0) await pause(50);
  const sandbox = await app.store.sandboxes.find({ projectId, state: ["wanted", "running", "stopped", "lost"] });
  if (sandbox !== null) await removeSandbox(app.ports, sandbox, { volume: false });
  await app.reconcile(); // also sends the events of removing
  await app.close();
  await database.end();
  say({ type: "ended", status: build.status, reason: build.reason, fired: fired() });
}

/** Makes each write to GitHub's API a crash point, named by the path below its repository. */
function reachAroundWrites(repo: string, reach: (point: string) => void): void {
  globalThis.fetch = async (input, init) => {
    const method = init?.method ?? "GET";
    if (method === "GET") return plainFetch(input, init);
    const { pathname } = new URL(String(input instanceof Request ? input.url : input));
    const path = pathname.replace(`/repos/${repo}`, "").replace(/\/[0-9a-f]{40}$|\/\d+(?=\/|$)/g, "");
    reach(`http.${method} ${path}.before`);
    const response = await plainFetch(input, init);
    reach(`http.${method} ${path}.after`);
    return response;
  };
}

async function isIdle(app: App): Promise<boolean> {
  await app.flush();
  const open = await database.query(
    "select from engine.runs where status = 'running' and function_id !~ '-(sandbox|snapshot|upkeep)'",
  );
  return open.rowCount === 0 && (await app.store.outbox.list({ sentAt: null })).length === 0;
}

/**
 * CI and a reviewer refuse the first head; CI passes every later one. The review and the check come
 * in one delivery, because the build goes on after either: if a process died between them, the
 * build's next head would get a different answer.
 */
async function answerAsGitHub(app: App, request: PullRequestRow, token: string): Promise<void> {
  const { repo, sha, branch, waveNumber } = request;
  if (request.number !== null) {
    const isFirst = waveNumber === 1;
    const check = checkOf({ repo, sha, branch, isRed: isFirst });
    const words = isFirst ? wordsOn(repo, request.number).map((fact) => [fact]) : [];
    const refusals = isFirst ? [reviewOn(repo, request.number), check] : [check];
    for (const facts of [...words, refusals]) {
      const reading = { facts, ignored: null };
      const { origin, kind } = facts[0]!;
      const { tenantId } = request;
      await takeDelivery(app.ports, { id: `github:${origin}`, tenantId, event: kind, reading });
    }
    if (!isFirst) await passCheck({ repo, sha, token });
  }
  const clock = { now: () => new Date(Date.now() + 3_600_000) };
  await askDuePullRequests({ ...app.ports, clock }, "all");
}

const wrong = "this is wrong";

function wordsOn(repository: string, number: number): OutsideFact[] {
  const on = { repository, number, by: "octo" };
  const place = { file: "one.txt", line: 1, url: null };
  return [
    { ...on, kind: "comment", origin: "comment-1", text: wrong, ...place },
    { ...on, kind: "comment", origin: "comment-2", text: "never mind", ...place },
    { ...on, kind: "thread", origin: "thread-1", comments: ["comment-2"], resolved: true },
    { ...on, kind: "command", origin: "command-1", verb: "help", text: "" },
    { ...on, kind: "command", origin: "command-2", verb: "cancel", text: "", by: "mallory" },
    { ...on, kind: "closed", origin: "closed-1", merged: false },
  ];
}

const reviewOn = (repository: string, number: number): OutsideFact => ({
  ...{ kind: "review", repository, number, by: "octo", origin: "review-1" },
  ...{ state: "changes_requested", text: wrong, sha: null },
});

const checkOf = (check: { repo: string; sha: string; branch: string; isRed: boolean }): OutsideFact => ({
  ...{ kind: "check", repository: check.repo, origin: `check-${check.sha}`, branch: check.branch, sha: check.sha },
  ...{ name: "ci/build", conclusion: check.isRed ? "failed" : "passed", url: null, log: "red", jobId: null },
  completedAt: new Date(0),
});

/** CI's own report, straight to GitHub. */
async function passCheck({ repo, sha, token }: { repo: string; sha: string; token: string }): Promise<void> {
  const url = `${process.env.WAVESMITH_GITHUB_API}/repos/${repo}/statuses/${sha}`;
  const body = JSON.stringify({ context: "ci/build", state: "success" });
  await plainFetch(url, { method: "POST", body, headers: { authorization: `token ${token}` } });
}

await main(JSON.parse(process.argv[2]!) as ForgeProcessInput);
