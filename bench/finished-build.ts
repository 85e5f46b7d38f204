import { randomBytes } from "node:crypto";
import type { App } from "../src/app.ts";
import { requestBuild } from "../src/coordinator/build/request/request-build.ts";

const sha = "a".repeat(40);
const tail = "a line of the output of an agent, as long as most of them are\n".repeat(20);

/** Stores a build whose tasks wait for their first wave. */
export async function storeWaitingBuild(app: App, count: number): Promise<string> {
  const tasks = Array.from({ length: count }, (_, at) => ({ id: `t${at}`, run: "true" }));
  const data = { project: "bench", plan: { name: "bench", tasks } };
  const event = { id: `bench-${randomBytes(4).toString("hex")}`, data };
  return (await requestBuild(app.ports, event, app.config.sandboxDriver)).buildId;
}

/** Stores a build as it is after all its waves, ten tasks each, have passed three gates. */
export async function storeFinishedBuild(app: App, count: number): Promise<string> {
  const { store } = app.ports;
  const buildId = await storeWaitingBuild(app, count);
  const tasks = await store.tasks.list({ buildId }, { by: "position" });
  const at = new Date();
  for (let number = 1; number <= Math.ceil(count / 10); number += 1) {
    const waveId = `${buildId}-${number}`;
    const members = tasks.slice((number - 1) * 10, number * 10);
    await store.waves.insert({
      ...{ id: waveId, buildId, number, status: "passed", baseSha: sha, headSha: sha },
      ...{ createdAt: at, passedAt: at, endedAt: at },
    });
    await store.waveTasks.insertMany(members.map(({ id }) => ({ waveId, taskId: id })));
    await store.attempts.insertMany(
      members.map(({ id, key }) => ({
        ...{ id: `${waveId}-${key}`, buildId, waveId, taskId: id, kind: "task" as const, role: "default", number: 1 },
        ...{ status: "settled" as const, outcome: "succeeded" as const, baseSha: sha, commitSha: sha },
        ...{
          treePath: `trees/${key}`,
          ref: `refs/heads/wavesmith/${buildId}/task/${key}/1`,
          jobKey: `${waveId}-${key}`,
        },
        verdict: { outcome: "succeeded" as const, reason: null, summary: "done", changed: [`${key}.txt`] },
        ...{ outputTail: tail, createdAt: at, startedAt: at, endedAt: at },
      })),
    );
    for (const gate of ["testing", "critic", "integration"] as const)
      await store.gateRuns.insert({
        ...{ id: `${waveId}-${gate}`, buildId, waveId, gate, round: 1, sha, epoch: 0 },
        ...{ status: "finished", verdict: "passed", evidence: evidence(gate), createdAt: at, endedAt: at },
      });
    const id = members.map((task) => task.id);
    await store.tasks.update({ id }, { status: "completed", waveId, attempts: 1, commitSha: sha, endedAt: at });
  }
  await store.builds.update({ id: buildId }, { status: "completed", headSha: sha, startedAt: at, endedAt: at });
  return buildId;
}

const evidence = (gate: string) => ({
  ...{ sha, command: `npm run ${gate}`, exitCode: 0, signal: null, timedOut: false, durationMs: 3_200 },
  ...{ outputTail: tail, tests: null, notes: [] },
});
