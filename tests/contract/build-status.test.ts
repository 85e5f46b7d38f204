import { expect, it } from "vitest";
import { statusJson } from "../../src/api/build-status.ts";
import { createBuildReader, readStatus } from "../../src/coordinator/build/read-build.ts";
import { createStore } from "../../src/store/store.ts";
import { testDatabase } from "../support/database.ts";
import { gate, moment, plan } from "../unit/cli-views.ts";

const facts = { interrupted: false, repository: "/repo", now: moment(9) };
const { evidence, sha } = gate({});

it("shows the same status of a build whether it reads all of it or only what the status needs", async () => {
  const store = createStore((await testDatabase()).pool);
  await store.tenants.insert({ id: "ten_1", name: "one" });
  await store.projects.insert({ id: "proj_1", tenantId: "ten_1", name: "shop" });
  const build = { id: "b1", tenantId: "ten_1", projectId: "proj_1", eventId: "e1", plan };
  await store.builds.insert({ ...build, status: "running", sandboxDriver: "local", network: "open" });
  await store.waves.insert({ id: "w1", buildId: "b1", number: 1, status: "fixing", baseSha: sha });
  for (const definition of plan.tasks) {
    const { key, position, agent } = definition;
    const isInWave = key === "db";
    const state = isInWave ? ({ status: "joining", waveId: "w1" } as const) : ({ status: "pending" } as const);
    await store.tasks.insert({ id: `t-${key}`, buildId: "b1", key, position, agent, definition, ...state });
  }
  await store.waveTasks.insert({ waveId: "w1", taskId: "t-db" });
  const attempt = {
    buildId: "b1",
    waveId: "w1",
    taskId: "t-db",
    kind: "task",
    role: "database",
    baseSha: sha,
  } as const;
  const place = (number: number) => ({
    number,
    id: `a${number}`,
    treePath: `t${number}`,
    ref: "r",
    jobKey: `j${number}`,
  });
  await store.attempts.insert({ ...attempt, ...place(1), status: "settled", outcome: "failed", endedAt: moment(3) });
  await store.attempts.insert({ ...attempt, ...place(2), status: "settled", outcome: "succeeded", endedAt: moment(4) });
  const run = { buildId: "b1", waveId: "w1", round: 1, sha, epoch: 0, status: "finished", endedAt: moment(6) } as const;
  const added = {
    ...{ role: "tester", phase: null, asked: true, lack: null, own: { verdict: "passed" as const, reason: null } },
    checks: [{ name: "lists", command: "curl /", why: "it must", needs: [], refused: null, result: null }],
  };
  await store.gateRuns.insert({
    ...{ ...run, id: "g1", gate: "testing", verdict: "passed", evidence: { ...evidence!, added } },
  });
  await store.gateRuns.insert({ ...run, id: "g2", gate: "critic", verdict: "failed", evidence });
  await store.findings.insert({
    gateRunId: "g2",
    rule: "secret",
    severity: "high",
    message: "a key",
    file: "a",
    line: 1,
  });

  const all = statusJson(await createBuildReader(store, "b1").read(), facts);
  expect(statusJson(await readStatus(store, "b1"), facts)).toEqual(all);
  expect(all.waves).toMatchObject([
    {
      gates: [{ name: "testing", added: { agent: "tester", checks: [{ name: "lists" }] } }, { name: "critic" }],
      findings: [{ rule: "secret" }],
      tasks: [{ id: "db", attempts: 2 }],
    },
  ]);
});
