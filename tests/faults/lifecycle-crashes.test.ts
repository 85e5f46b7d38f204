import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { crashPoints } from "../../src/coordinator/crash-points.ts";
import { engineCrashPoints } from "../../src/engine/crash-points.ts";
import { createStore } from "../../src/store/store.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { type CrashPlace, crashCases, dieAt, processesOf } from "../support/crash-runs.ts";

// Kills a process (SIGKILL) at a crash point while it starts, packs, restores, stops or removes a
// sandbox; another one continues after the crons have run. tests/support/crash-runs.ts says how to
// try points by hand.

const program = await bundledProgram("lifecycle-process");
const inLifecycle = /^(sandbox-|sandboxes\.|snapshots\.|driver\.|engine\.cron\.)/;
const points = [...crashPoints, ...engineCrashPoints].filter((point) => inLifecycle.test(point));

describe("a process that manages sandboxes and is killed at a crash point", () => {
  it("reaches each of the listed points", { timeout: 900_000 }, async () => {
    expect(await atAll([])).toEqual([...points].sort());
  });

  it.each(crashCases(points, 12, 3))(
    "leaves nothing that the crons and the next process do not repair: $named",
    { timeout: 1_800_000 },
    async ({ points: some }) => {
      await atAll(some);
    },
  );
});

/**
 * Runs one life that dies at all of these points; resolves with the lifecycle's points that it
 * reached.
 */
async function atAll(some: readonly string[]): Promise<string[]> {
  const test = "tests/faults/lifecycle-crashes.test.ts";
  const fired = await dieAt(some, { program, test, check: checkEnd });
  return fired.filter((point) => points.includes(point));
}

async function checkEnd({ dataDir, project, database }: CrashPlace): Promise<void> {
  const store = createStore(database.pool);
  const events = await store.outbox.list({}, { by: "seq" });
  const eventsNamed = (...names: string[]): string[] =>
    events.flatMap(({ name, eventId }) => (names.includes(name) ? eventId.slice(name.length + 1) : [])).sort();
  const [begun, ended] = [eventsNamed("sandbox/started"), eventsNamed("sandbox/stopped", "sandbox/lost")];
  const story = events.map(({ eventId, data }) => `${eventId} ${data.reason ?? ""}`).join("\n");
  expect(ended, `each boot that began has one end:\n${story}`).toEqual(begun);
  const sandboxes = await store.sandboxes.list({});
  expect(sandboxes.map(({ state }) => state)).toEqual(sandboxes.map(() => "removed"));
  expect(eventsNamed("sandbox/created")).toEqual(sandboxes.map(({ id }) => `${id}:0`).sort());
  const states = (await store.snapshots.list({})).map(({ state }) => state);
  expect(states.filter((state) => state !== "removed" && state !== "failed")).toEqual([]);
  await expect.poll(() => processesOf(dataDir).map(({ text }) => text), { timeout: 20_000 }).toEqual([]);
  const projectId = projectIdFor("default", project);
  for (const folder of ["sandboxes", "volumes", "egress"])
    expect(namesIn(join(dataDir, folder))).not.toContain(projectId);
  expect(namesIn(join(dataDir, "snapshots"))).toEqual([]);
}

const namesIn = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : []);
