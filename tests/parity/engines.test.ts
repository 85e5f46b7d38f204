import { afterEach, describe, expect, it } from "vitest";
import { resumeBuild } from "../../src/coordinator/build/resume-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { approveWave } from "../../src/coordinator/wave/decide-wave.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { type FakeInngest, startFakeInngest } from "../support/fake-inngest.ts";

// The same functions under both engines. Results are compared, never order or time.

interface Place {
  readonly fixture: BuildFixture;
  readonly inngest: FakeInngest | null;
}

const open: (() => Promise<void>)[] = [];

async function onEmbedded(): Promise<Place> {
  const fixture = await createBuildFixture();
  open.push(() => fixture.close());
  return { fixture, inngest: null };
}

/**
 * Calls come over HTTP, one for each step, in random order, and a tenth of their answers is lost.
 */
async function onInngest(): Promise<Place> {
  const inngest = await startFakeInngest({ seed: 7, lossPercent: 10 });
  const fixture = await createBuildFixture({ env: { INNGEST_DEV: inngest.url } });
  const server: RunningServer = await startServer({
    app: fixture.app,
    engine: fixture.app.config.engine,
    key: "key",
    host: "127.0.0.1",
    port: 0,
    inform: () => undefined,
    warn: (message) => (fixture.warnings as string[]).push(message),
    registerEveryMs: 50,
  });
  open.push(async () => {
    await inngest.idle();
    await server.stop();
    await fixture.close();
    await inngest.close();
  });
  const deadline = Date.now() + 20_000;
  while (inngest.registrations === 0 && Date.now() < deadline) await new Promise((wake) => setTimeout(wake, 20));
  return { fixture, inngest };
}

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

const write = (path: string, text: string): string => `printf '%s\n' '${text}' > ${path}`;

const diamond = {
  tasks: [
    { id: "words", run: write("words.txt", "wave smith") },
    { id: "count", dependsOn: ["words"], run: "wc -w < words.txt | tr -d ' ' > count.txt" },
    { id: "sort", dependsOn: ["words"], run: "tr ' ' '\n' < words.txt | sort > sorted.txt" },
    { id: "report", dependsOn: ["count", "sort"], run: "cat count.txt sorted.txt > report.txt" },
  ],
};

/** Everything of a build that must not depend on what ran its functions. */
async function resultOf({ fixture }: Place, build: BuildRow) {
  const { store } = fixture.app;
  const waves = await store.waves.list({ buildId: build.id }, { by: "number" });
  const attempts = await store.attempts.list({ buildId: build.id });
  const gates = await store.gateRuns.list({ buildId: build.id });
  const tasks = await store.tasks.list({ buildId: build.id }, { by: "position" });
  const key = new Map<string, string>(tasks.map((task) => [task.id, task.key]));
  return {
    status: build.status,
    reason: build.reason,
    tasks: Object.fromEntries(tasks.map((task) => [task.key, task.status])),
    waves: waves.map((wave) => [wave.number, wave.status]),
    attempts: attempts.map((one) => `${key.get(one.taskId ?? "")} ${one.number} ${one.kind} ${one.outcome}`).sort(),
    gates: gates.map((run) => `${run.gate} ${run.verdict}`).sort(),
    tree: (await fixture.git("rev-parse", "main^{tree}")).trim(),
    commits: (await fixture.git("rev-list", "--count", "main")).trim(),
    tags: (await fixture.git("tag", "-l")).trim().split("\n").length,
  };
}

async function both(act: (place: Place) => Promise<BuildRow>) {
  const embedded = await onEmbedded();
  const inngest = await onInngest();
  const results = [];
  for (const place of [embedded, inngest]) results.push(await resultOf(place, await act(place)));
  return { embedded: results[0]!, inngest: results[1]!, server: inngest.inngest! };
}

describe("a build under the embedded engine and under an Inngest server", () => {
  it("ends alike: the diamond", async () => {
    const { embedded, inngest, server } = await both(({ fixture }) => fixture.build(diamond));
    expect(inngest).toEqual(embedded);
    expect(embedded.status).toBe("completed");
    expect(server.faults).toEqual([]);
    expect(server.lostAnswers, "answers were lost, so steps ran again").toBeGreaterThan(0);
  });

  it("ends alike: a failing test is fixed by the fixer", async () => {
    const { embedded, inngest } = await both(({ fixture }) =>
      fixture.build({
        agents: { fixer: { runtime: "command", command: "cat > /dev/null; echo good > state.txt" } },
        tasks: [{ id: "a", run: write("state.txt", "bad") }],
        gates: { testing: { command: 'grep -q good state.txt && echo "1..1" && echo "ok 1 - state"' } },
      }),
    );
    expect(inngest).toEqual(embedded);
    expect(embedded.status).toBe("completed");
    expect(embedded.attempts).toHaveLength(2);
  });

  it("ends alike: a brief, whose planner makes the plan at its second attempt, approved by a person", async () => {
    const made = { name: "made", tasks: [{ id: "a", agent: "backend", instructions: "write a.txt" }] };
    const handIn = (plan: object) => `echo '${JSON.stringify(plan)}' > "$WAVESMITH_RESULT_FILE"`;
    const { embedded, inngest } = await both(async ({ fixture }) => {
      const planner = `cat > /dev/null; ${handIn(made)}; grep -q '"attempt": 1,' "$WAVESMITH_TASK_FILE" && ${handIn({})}; true`;
      const agents = {
        planner: { runtime: "command", command: planner },
        default: { runtime: "command", command: "cat > /dev/null; echo a > a.txt" },
      };
      const id = await fixture.requestBrief("a file", { agents });
      await fixture.until(id);
      await approveWave(fixture.app.ports, id, { by: null });
      return fixture.until(id);
    });
    expect(inngest).toEqual(embedded);
    expect(embedded).toMatchObject({ status: "completed", tasks: { plan: "completed", a: "completed" } });
    expect(embedded.attempts).toHaveLength(3);
  });

  it("ends alike: a failed task, then a retry that succeeds", async () => {
    const { embedded, inngest } = await both(async ({ fixture }) => {
      const plan = {
        tasks: [
          { id: "good", run: write("good.txt", "good") },
          { id: "odd", run: "test $WAVESMITH_ATTEMPT -gt 1 && echo odd > odd.txt", retries: 0 },
        ],
      };
      const failed = await fixture.build(plan);
      expect(failed.status).toBe("failed");
      await retryBuild(fixture.app.ports, failed.id);
      return fixture.until(failed.id);
    });
    expect(inngest).toEqual(embedded);
  });

  it("ends alike: a task that conflicts and is done again, rolled back and done once more: each under an id of its own", {
    timeout: 180_000,
  }, async () => {
    const { embedded, inngest, server } = await both(async ({ fixture }) => {
      const append = (name: string) => ({ id: name, run: `echo ${name} >> list.txt`, retries: 0 });
      const plan = { limits: { maxParallelTasks: 2 }, tasks: [append("a"), append("b")] };
      const done = await fixture.build(plan);
      expect([done.status, done.reason]).toEqual(["completed", null]);
      await rollbackBuild(fixture.app.ports, done.id, 1);
      await resumeBuild(fixture.app.ports, done.id);
      return fixture.until(done.id);
    });
    expect(inngest).toEqual(embedded);
    expect([embedded.status, embedded.attempts.length]).toEqual(["completed", 4]);
    await server.idle();
    const asked = server.events.filter(({ name }) => /^agent\/(wave|execution|quality)\./.test(name));
    expect(asked.filter(({ name }) => name.startsWith("agent/execution."))).toHaveLength(4);
    expect(new Set(asked.map(({ name, id }) => `${name} ${id}`)).size).toBe(asked.length);
  });

  it("ends alike: cancelled while a task runs", async () => {
    const { embedded, inngest } = await both(async ({ fixture }) => {
      const buildId = await fixture.request({ tasks: [{ id: "long", run: "echo begun > begun.txt; sleep 600" }] });
      await fixture.until(buildId, async () => {
        const attempt = await fixture.app.store.attempts.find({ buildId });
        return attempt?.status === "running";
      });
      await requestCancel(fixture.app.ports, buildId, "enough");
      return fixture.until(buildId);
    });
    expect(inngest).toEqual(embedded);
    expect(embedded.status).toBe("cancelled");
  });

  it("ends alike: a plan with faults starts nothing, and its run says why", async () => {
    const { fixture, inngest } = await onInngest();
    await fixture.app.send({
      name: "project/build.requested",
      id: "faulty",
      data: {
        projectId: fixture.projectId,
        plan: { name: "faulty", tasks: [{ id: "a", dependsOn: ["b"], run: "true" }] },
      },
    });
    await inngest!.idle();
    const run = inngest!.runs.find(({ functionId }) => functionId === "wavesmith-build-start");
    expect(run?.status).toBe("failed");
    expect(JSON.stringify(run?.output)).toContain("dependsOn");
    expect(await fixture.app.store.builds.list({})).toEqual([]);
  });
});

describe("what Inngest's dashboard shows of a build", () => {
  it("reads like the build: names of functions and steps, what tasks and waves they are about", async () => {
    const { fixture, inngest } = await onInngest();
    await fixture.build(diamond);
    await inngest!.idle();
    const names = new Set(inngest!.runs.map((run) => run.functionName));
    expect([...names].sort()).toEqual(
      [
        "Build: check the plan and get ready",
        "Task: hand it to its agent",
        "Task: keep the work and settle the outcome",
        "Wave: choose tasks and hand them out",
        "Wave: deliver to main",
        "Wave: join its branches",
        ...[...names].filter((name) => name.startsWith("Gate: ")).sort(),
      ].sort(),
    );
    const started = inngest!.runs.filter(({ functionName }) => functionName === "Task: hand it to its agent");
    expect(new Set(started.map(({ event }) => event.data.taskKey))).toEqual(
      new Set(["words", "count", "sort", "report"]),
    );
    for (const { steps, event, output } of started) {
      const { taskKey, waveNumber, buildId } = event.data;
      expect(steps.slice(0, 2)).toEqual([
        `claim attempt 1 of ${taskKey} in wave ${waveNumber}`,
        "start its job on a clean tree",
      ]);
      expect(output).toMatchObject({ buildId, wave: waveNumber, task: taskKey, attempt: 1 });
    }
    const ended = inngest!.runs.filter(({ event: { name } }) => /^agent\/(attempt|gate)\.finished$/.test(name));
    for (const { output, event } of ended) {
      const settled = event.name === "agent/gate.finished" ? { verdict: expect.any(String) } : { outcome: "succeeded" };
      expect(output).toMatchObject({ buildId: event.data.buildId, wave: event.data.waveNumber, ...settled });
    }
    for (const { event } of inngest!.runs.filter(({ event: { name } }) => /^(agent|project)\//.test(name))) {
      expect(event.id).toMatch(/:\d+$/);
    }
  });
});
