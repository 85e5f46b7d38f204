import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { processesSaying, sleepToken } from "../contract/guest-fixture.ts";
import { type BuildFixture, createBuildFixture, eachBuildFixture } from "../support/build-fixture.ts";

const write = (path: string, text: string): string => `printf '%s\\n' '${text}' > ${path}`;

describe("a build", () => {
  const fixture = eachBuildFixture({ env: { DEPLOY_TOKEN: "tok-1234567890" } });

  const evidenceOf = async (buildId: string) =>
    (await fixture.app.store.gateRuns.list({ buildId }, { by: "createdAt" })).map(
      (run) => `${run.gate} ${run.verdict}`,
    );

  it("joins three tasks in two waves, attributes every commit and sets restore points", async () => {
    const build = await fixture.build({
      agents: { backend: { runtime: "command", command: "cat > prompt.txt; echo api > api.txt" } },
      tasks: [
        { id: "base", run: write("base.txt", "base") },
        { id: "api", agent: "backend", dependsOn: ["base"], instructions: "Write the API." },
        { id: "docs", dependsOn: ["base"], run: write("docs.txt", "docs") },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect((await fixture.git("ls-tree", "--name-only", "main")).trim().split("\n")).toEqual([
      "api.txt",
      "base.txt",
      "docs.txt",
      "prompt.txt",
    ]);
    expect(await fixture.git("show", "main:prompt.txt")).toContain("Write the API.");
    const trailers = await fixture.git(
      "log",
      "--format=%an|%(trailers:key=Wavesmith-Task,valueonly,separator=,)|%(trailers:key=Wavesmith-Attempt,valueonly,separator=,)",
      `wavesmith/${build.id}/task/api/1`,
      "-1",
    );
    expect(trailers.trim()).toBe("backend agent|api|1");
    expect((await fixture.git("tag", "-l")).trim().split("\n")).toEqual(
      [0, 1, 2].map((wave) => `wavesmith-restore/${build.id}/${wave}`),
    );
    expect((await fixture.git("rev-parse", "main")).trim()).toBe(build.headSha);
  });

  it("starts once if its event is delivered five times", async () => {
    const plan = { tasks: [{ id: "a", run: "echo a > a" }] };
    const ids = await Promise.all([1, 2, 3, 4, 5].map(() => fixture.request(plan, { eventId: "same" })));
    expect(new Set(ids).size).toBe(1);
    await fixture.until(ids[0]!);
    expect(await fixture.app.store.attempts.list({ buildId: ids[0]! })).toHaveLength(1);
    expect(await fixture.app.store.builds.list({})).toHaveLength(1);
  });

  it("gives a retry the previous failure, and spends one retry", async () => {
    const build = await fixture.build({
      agents: {
        default: {
          runtime: "command",
          command:
            'cat > "$WAVESMITH_ROLE.prompt"; test -n "$(grep -c "went wrong here" *.prompt | grep -v ^0)" || { echo went wrong here; exit 3; }',
        },
      },
      tasks: [{ id: "a", agent: "default", instructions: "Do it.", retries: 1 }],
    });
    expect(build.status).toBe("completed");
    const attempts = await fixture.app.store.attempts.list({ buildId: build.id }, { by: "number" });
    expect(attempts.map((attempt) => attempt.outcome)).toEqual(["failed", "succeeded"]);
    expect(attempts[0]!.reason).toContain("exited with 3");
    expect(attempts[0]!.outputTail).toContain("went wrong here");
    expect(await fixture.git("cat-file", "-t", `wavesmith/${build.id}/task/a/1`), "failed work is kept").toContain(
      "commit",
    );
  });

  it("stops at a failed task: siblings finish, are joined and gated, nothing new is dispatched", async () => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 2 },
      tasks: [
        { id: "good", run: write("good.txt", "good") },
        { id: "bad", run: "exit 1", retries: 0 },
        { id: "later", dependsOn: ["good"], run: write("later.txt", "x") },
      ],
    });
    expect([build.status, build.reason]).toEqual(["failed", "task bad failed"]);
    expect(await fixture.tasks(build.id)).toEqual({ good: "completed", bad: "failed", later: "pending" });
    expect((await fixture.git("ls-tree", "--name-only", "main")).trim()).toBe("good.txt");
  });

  it("continues past a failure if the plan says so, and skips dependent tasks", async () => {
    const build = await fixture.build({
      onTaskFailure: "continue",
      tasks: [
        { id: "bad", run: "exit 1", retries: 0 },
        { id: "good", run: write("good.txt", "good") },
        { id: "after-bad", dependsOn: ["bad"], run: "true" },
        { id: "after-that", dependsOn: ["after-bad"], run: "true" },
        { id: "after-good", dependsOn: ["good"], run: write("more.txt", "more") },
      ],
    });
    expect(build.status).toBe("failed");
    expect(await fixture.tasks(build.id)).toEqual({
      bad: "failed",
      good: "completed",
      "after-bad": "skipped",
      "after-that": "skipped",
      "after-good": "completed",
    });
  });

  it("fails a wave that joined nothing: no gates, no tag", async () => {
    const build = await fixture.build({ tasks: [{ id: "bad", run: "exit 1", retries: 0 }] });
    expect(build.status).toBe("failed");
    expect((await fixture.app.store.waves.list({ buildId: build.id })).map((wave) => wave.status)).toEqual(["failed"]);
    expect(await evidenceOf(build.id)).toEqual([]);
  });

  it("believes the diff, not the claim: an agent that changes nothing has failed", async () => {
    const build = await fixture.build({
      agents: { default: { runtime: "command", command: "cat >/dev/null; echo all done" } },
      tasks: [{ id: "a", agent: "default", instructions: "Do it.", retries: 0 }],
    });
    expect(build.status).toBe("failed");
    expect((await fixture.app.store.tasks.get({ buildId: build.id })).reason).toContain("without changing a file");
  });

  it("does a conflicting task again on the new base, with the conflict in its context, until everything is in", async () => {
    const names = ["a", "b", "c", "d", "e"];
    const build = await fixture.build({
      limits: { maxParallelTasks: 5, tasksPerAgentPerWave: 5 },
      tasks: names.map((name) => ({ id: name, run: `echo ${name} >> list.txt`, retries: 0 })),
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect((await fixture.git("show", "main:list.txt")).trim().split("\n").sort()).toEqual(names);
    const tasks = await fixture.app.store.tasks.list({ buildId: build.id }, { by: "position" });
    // Once we know where they conflict, they get separate waves (W2).
    expect(tasks.map((task) => [task.attempts, task.retriesUsed])).toEqual([1, 2, 2, 2, 2].map((tries) => [tries, 0]));
    expect(tasks[1]!.conflicts[0]).toMatchObject({ waveNumber: 1, paths: ["list.txt"] });
  });

  it("regenerates generated files instead of conflicting", async () => {
    const part = (name: string) => ({ id: name, run: `echo ${name} > part-${name}; cat part-* > all.lock` });
    const build = await fixture.build({
      limits: { maxParallelTasks: 3 },
      generated: [{ path: "all.lock", by: "cat part-* > all.lock" }],
      tasks: [part("a"), part("b"), part("c")],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:all.lock")).toBe("a\nb\nc\n");
    expect(await fixture.app.store.waves.list({ buildId: build.id })).toHaveLength(1);
  });

  const gated = (fixer: string | null, extra: Record<string, unknown> = {}) => ({
    agents: fixer === null ? {} : { fixer: { runtime: "command", command: fixer } },
    gates: { testing: { command: "sh ./test.sh" }, maxFixRounds: 2 },
    tasks: [
      {
        id: "a",
        run: `printf 'echo 1..1; if grep -q good value; then echo ok 1 - value; else echo not ok 1 - value is bad; exit 1; fi\\n' > test.sh; echo bad > value`,
      },
    ],
    ...extra,
  });

  it("lets the fixer fix the finding of a gate, then repeats every gate on the new head", async () => {
    const build = await fixture.build(gated("grep -q 'value is bad' && echo good > value"));
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await evidenceOf(build.id)).toEqual([
      "testing failed",
      "testing passed",
      "critic passed",
      "integration absent",
    ]);
    expect(await fixture.git("log", "-1", "--format=%(trailers:key=Fixes,valueonly)", build.headSha!)).toMatch(/gate_/);
    const [failed] = await fixture.app.store.gateRuns.list({ buildId: build.id, verdict: "failed" });
    expect(failed!.evidence).toMatchObject({
      command: "sh ./test.sh",
      exitCode: 1,
      tests: { total: 1, failed: 1, source: "tap" },
    });
  });

  it("stops fixing when the same findings come twice", async () => {
    const build = await fixture.build(gated("cat >/dev/null; date +%N > touched"));
    expect(build.status).toBe("failed");
    expect((await fixture.app.store.waves.get({ buildId: build.id })).reason).toContain("same findings");
    expect((await fixture.app.store.waves.get({ buildId: build.id })).fixRounds).toBe(1);
  });

  it("ends fixing when the fixer changes nothing, and has none without a runtime for it", async () => {
    const idle = await fixture.build(gated("cat >/dev/null"));
    expect((await fixture.app.store.waves.get({ buildId: idle.id })).reason).toContain("without changing a file");
    const none = await fixture.build(gated(null));
    expect((await fixture.app.store.waves.get({ buildId: none.id })).reason).toContain(
      "no runtime is set for the role fixer",
    );
  });

  it("refuses a fix that weakens tests", async () => {
    const build = await fixture.build({
      agents: {
        fixer: {
          runtime: "command",
          command: "cat >/dev/null; rm test/value.test.js; echo 'console.log(1)' > other.js",
        },
      },
      gates: { testing: { command: "node --test test/" } },
      tasks: [
        {
          id: "a",
          run: "mkdir test; printf \"const test = require('node:test'); const assert = require('node:assert');\\ntest('value', () => assert.equal(1, 2));\\n\" > test/value.test.js",
        },
      ],
    });
    expect(build.status).toBe("failed");
    expect((await fixture.app.store.waves.get({ buildId: build.id })).reason).toContain("weakens tests");
  });

  it("blocks on a missing test command, and never passes a run without tests", async () => {
    const missing = await fixture.build({
      gates: { testing: { command: "no-such-runner" } },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    expect(missing.status).toBe("failed");
    expect(await evidenceOf(missing.id)).toEqual(["testing inconclusive"]);
    const empty = await fixture.build({
      gates: { testing: { command: "true" } },
      tasks: [{ id: "b", run: "echo b > b" }],
    });
    expect(empty.status).toBe("failed");
    expect((await fixture.app.store.gateRuns.get({ buildId: empty.id })).reason).toContain("too few tests");
  });

  it("retries a blocked wave on a commit that a person put on its branch", async () => {
    const build = await fixture.build(gated(null));
    expect(build.status).toBe("failed");
    const branch = `refs/heads/wavesmith/${build.id}/wave-1`;
    const tree = (await fixture.git("rev-parse", `${branch}^{tree}`)).trim();
    const mended = await mendedTree(fixture, tree);
    const commit = (
      await fixture.git(
        "-c",
        "user.name=Ada",
        "-c",
        "user.email=ada@example.com",
        "commit-tree",
        mended,
        "-p",
        branch,
        "-m",
        "By hand",
      )
    ).trim();
    await fixture.git("update-ref", branch, commit);
    await retryBuild(fixture.app.ports, build.id);
    const again = await fixture.until(build.id);
    expect([again.status, again.reason]).toEqual(["completed", null]);
    expect(again.headSha).toBe(commit);
  });

  it("retries failed tasks in the next wave with their retries renewed", async () => {
    const build = await fixture.build({
      onTaskFailure: "continue",
      tasks: [
        { id: "a", run: "echo a > a" },
        {
          id: "b",
          dependsOn: ["a"],
          run: 'test "$WAVESMITH_ATTEMPT_NUMBER" != x; test -e ../../../cache/ready && echo b > b',
          retries: 0,
        },
      ],
    });
    expect(build.status).toBe("failed");
    const { guest } = (await fixture.app.ports.driver(build.sandboxDriver).find(fixture.projectId as never))!;
    await guest.writeFile("cache/ready", "yes");
    await retryBuild(fixture.app.ports, build.id);
    expect((await fixture.until(build.id)).status).toBe("completed");
    expect(
      (await fixture.app.store.waves.list({ buildId: build.id }, { by: "number" })).map((wave) => wave.status),
    ).toEqual(["passed", "failed", "passed"]);
  });

  it("cancels: processes are gone, the work so far is kept on its branch", async () => {
    const token = sleepToken();
    const buildId = await fixture.request({
      limits: { maxParallelTasks: 2 },
      tasks: [
        { id: "slow", run: `echo begun > begun.txt; setsid sleep ${token} & sleep ${token}` },
        { id: "after", dependsOn: ["slow"], run: "true" },
      ],
    });
    await fixture.until(buildId, async () => {
      const endpoint = await fixture.app.ports
        .driver((await fixture.app.store.builds.get({ id: buildId })).sandboxDriver)
        .find(fixture.projectId as never)
        .catch(() => null);
      return (await endpoint?.guest.readFile(`trees/${buildId}/slow.1/begun.txt`)) != null;
    });
    expect(await requestCancel(fixture.app.ports, buildId, "no longer wanted")).toBe(true);
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["cancelled", "no longer wanted"]);
    expect(processesSaying(token)).toEqual([]);
    expect(await fixture.tasks(buildId)).toEqual({ slow: "cancelled", after: "cancelled" });
    expect(await fixture.git("show", `wavesmith/${buildId}/task/slow/1:begun.txt`)).toBe("begun\n");
    const [attempt] = await fixture.app.store.attempts.list({ buildId });
    expect(attempt!.outcome).toBe("cancelled");
  });

  it("reopens a cancelled build where it was cancelled", async () => {
    const buildId = await fixture.request({
      limits: { maxParallelTasks: 2 },
      tasks: [
        { id: "quick", run: "echo q > q" },
        { id: "slow", run: "test -e ../../../cache/go || sleep 300; echo s > s" },
      ],
    });
    await fixture.until(
      buildId,
      async () =>
        (await fixture.app.store.tasks.find({ buildId, key: "quick", status: "joining" })) !== null &&
        (await fixture.app.store.attempts.find({ buildId, status: "running" })) !== null,
    );
    await requestCancel(fixture.app.ports, buildId, "pause");
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    const { guest } = (await fixture.app.ports
      .driver((await fixture.app.store.builds.get({ id: buildId })).sandboxDriver)
      .find(fixture.projectId as never))!;
    await guest.writeFile("cache/go", "yes");
    await retryBuild(fixture.app.ports, buildId);
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect((await fixture.git("ls-tree", "--name-only", "main")).trim()).toBe("q\ns");
    expect(await fixture.app.store.waves.list({ buildId })).toHaveLength(1);
    const quick = await fixture.app.store.tasks.get({ buildId, key: "quick" });
    expect(quick.attempts, "finished work is not done again").toBe(1);
  });

  it("queues a second build of the project, which starts from main", async () => {
    const first = await fixture.request({ tasks: [{ id: "a", run: "sleep 0.5; echo a > a" }] });
    const second = await fixture.request({ tasks: [{ id: "b", run: "test -e a && echo b > b" }] });
    expect((await fixture.until(first)).status).toBe("completed");
    const build = await fixture.until(second);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(build.baseSha).toBe((await fixture.app.store.builds.get({ id: first })).headSha);
  });

  it("masks secrets in logs, reasons, findings and evidence", async () => {
    const build = await fixture.build({
      secrets: ["DEPLOY_TOKEN"],
      gates: { testing: { command: 'echo "not ok 1 - $DEPLOY_TOKEN"; echo 1..1; exit 1' } },
      tasks: [{ id: "a", run: 'echo "token is $DEPLOY_TOKEN"; printf %s "$DEPLOY_TOKEN" | base64; echo a > a' }],
    });
    expect(build.status).toBe("failed");
    const { rows } = await dump(fixture);
    expect(rows).toContain("[secret DEPLOY_TOKEN]");
    expect(rows).not.toContain("tok-1234567890");
    expect(rows).not.toContain(Buffer.from("tok-1234567890").toString("base64"));
  });

  it("lets no secret's value into main", async () => {
    const build = await fixture.build({
      secrets: ["DEPLOY_TOKEN"],
      tasks: [{ id: "a", run: 'echo "key=$DEPLOY_TOKEN" > notes.txt' }],
    });
    expect(build.status).toBe("failed");
    expect((await fixture.git("ls-tree", "--name-only", "main")).trim()).toBe("");
    const [finding] = await fixture.app.store.findings.list({});
    expect(finding).toMatchObject({ rule: "secret", severity: "critical", file: "notes.txt", line: 1 });
  });

  it("gives each tree its own ports, starts the services it mentions, and fills setup from the cache", async () => {
    const serve =
      "node -e \"require('http').createServer((q,s)=>s.end('db')).listen(process.env.PORT_DB,'127.0.0.1')\"";
    const ask =
      "node -e \"fetch('http://127.0.0.1:'+process.env.PORT_DB).then(r=>r.text()).then(t=>{if(t!=='db')process.exit(1)})\"";
    const build = await fixture.build({
      services: { db: { command: serve, ready: ask } },
      setup: { run: "mkdir -p node_modules; date +%s%N > node_modules/stamp", cache: ["package-lock.json"] },
      tasks: [
        { id: "a", run: `${ask}; cat node_modules/stamp > a` },
        { id: "b", dependsOn: ["a"], run: `test -n "$PORT"; cat node_modules/stamp > b` },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:a")).toBe(await fixture.git("show", "main:b"));
  });

  it("ends a build whose wall-clock budget is used up, keeping its work", async () => {
    let late = 0;
    const timed = await createBuildFixture({ clock: () => new Date(Date.now() + late) });
    try {
      const buildId = await timed.request({
        limits: { budget: { wallClock: "1h" } },
        tasks: [{ id: "slow", run: "echo w > w; sleep 300" }],
      });
      await timed.until(buildId, async (build) => {
        const endpoint = await timed.app.ports.driver(build.sandboxDriver).find(timed.projectId as never);
        return (await endpoint?.guest.readFile(`trees/${buildId}/slow.1/w`)) != null;
      });
      late = 3_601_000;
      const build = await timed.until(buildId);
      expect([build.status, build.reason]).toEqual(["failed", "the plan's time limit is used up"]);
      const [attempt] = await timed.app.store.attempts.list({ buildId });
      expect(attempt!.outcome).toBe("over-budget");
      expect(await timed.git("show", `wavesmith/${buildId}/task/slow/1:w`)).toBe("w\n");
    } finally {
      await timed.close();
    }
  });

  it("ends a task at its time limit, with every process that escaped, and says so", async () => {
    const token = sleepToken();
    const run = `setsid sleep ${token} & sleep ${token}`;
    const build = await fixture.build({ tasks: [{ id: "hang", run, timeout: "500ms", retries: 0 }] });
    expect(build.status).toBe("failed");
    expect(processesSaying(token)).toEqual([]);
    expect((await fixture.app.store.tasks.get({ buildId: build.id })).reason).toMatch(
      /exceeded its timeout after \d+s/,
    );
  });
});

async function dump(fixture: BuildFixture): Promise<{ rows: string }> {
  const { store } = fixture.app;
  const all = [
    await store.logChunks.list({}),
    await store.attempts.list({}),
    await store.gateRuns.list({}),
    await store.findings.list({}),
    await store.outbox.list({}),
    await store.jobs.list({}),
    await store.tasks.list({}),
    await store.builds.list({}),
    await store.waves.list({}),
  ];
  return { rows: JSON.stringify(all) };
}

/** The tree in which `value` is what `test.sh` expects. */
async function mendedTree(fixture: BuildFixture, tree: string): Promise<string> {
  const listing = (await fixture.git("ls-tree", tree)).trim().split("\n");
  expect(listing).toHaveLength(2);
  const repository = fixture.app.ports.workspace.repositoryPath(fixture.projectId as never);
  const git = (args: string[], input: string) =>
    execFileSync("git", ["-C", repository, ...args], { input })
      .toString()
      .trim();
  const blob = git(["hash-object", "-w", "--stdin"], "good\n");
  return git(
    ["mktree"],
    `${listing.map((line) => (line.endsWith("\tvalue") ? `100644 blob ${blob}\tvalue` : line)).join("\n")}\n`,
  );
}
