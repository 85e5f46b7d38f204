import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { planFileName } from "../../src/domain/plan/brief.ts";
import { createStore } from "../../src/store/store.ts";
import type { BriefProcessInput, BriefProcessLine } from "../support/brief-process.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { linesUntilKilled } from "../support/json-process.ts";

// A build from a brief whose process is killed (SIGKILL) between the planner's end and the plan's
// start. Another process continues, and the plan is drafted once and applied once (W3, W4).

const program = await bundledProgram("brief-process");
const plan = {
  name: "made",
  description: "Two files.",
  tasks: ["one", "two"].map((id) => ({ id, title: id, agent: "backend", instructions: `write ${id}` })),
  gates: { testing: { command: "echo 1..1; echo ok 1 - fine" } },
};
const agents = {
  planner: {
    runtime: "command",
    command: 'cat > /dev/null; cp plan.json "$WAVESMITH_RESULT_FILE"',
  },
  default: { runtime: "command", command: 'cat > /dev/null; echo done > "$WAVESMITH_TASK.txt"' },
};
/** In the order in which a build first reaches them; a life reaches each only once. */
const points = [
  "end-job.after-commit",
  "attempts.update.after-commit",
  "settle-attempt.before-commit",
  "settle-attempt.after-commit",
  "join-wave.before-commit",
  "wave-approved.before-commit",
  "wave-approved.after-commit",
  "deliver-wave.after-commit",
];

describe("a build from a brief whose process is killed", () => {
  let folder: string;
  let database: TestDatabase;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-brief-"));
    mkdirSync(join(folder, "seed"));
    writeFileSync(join(folder, "seed/plan.json"), JSON.stringify(plan));
    database = await testDatabase();
  });
  afterEach(async () => {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it(`has its plan made once and applied once: ${points.join(", ")}`, { timeout: 600_000 }, async () => {
    const data = join(folder, "data");
    const project = basename(folder).toLowerCase();
    const request = { brief: "two files", agents, source: { path: join(folder, "seed") } };
    const live = (diesAt: string | null) =>
      run({ WAVESMITH_DATA: data, DATABASE_URL: database.url }, { project, request, diesAt });
    const lines: BriefProcessLine[] = [];
    for (const point of points) {
      const said = await live(point);
      lines.push(...said);
      expect(said.at(-1), JSON.stringify(lines)).toEqual({ type: "killed", point });
    }
    lines.push(...(await live(null)));
    expect(lines.at(-1), JSON.stringify(lines)).toEqual({ type: "ended", status: "completed", reason: null });
    const store = createStore(database.pool);
    const buildId = buildIdForEvent(`project/build.requested:${project}:0`);
    expect(await store.builds.get({ id: buildId })).toMatchObject({ planVersion: 1 });
    const tasks = await store.tasks.list({ buildId }, { by: "position" });
    expect(tasks.map(({ key, status }) => [key, status])).toEqual([
      ["plan", "completed"],
      ["one", "completed"],
      ["two", "completed"],
    ]);
    const planning = await store.attempts.list({ taskId: tasks[0]!.id });
    expect(planning.map(({ outcome }) => outcome)).toEqual(["succeeded"]);
    expect(existsSync(join(data, "plans", planFileName(buildId, 1)))).toBe(true);
  });
});

const run = (place: Record<string, string>, input: BriefProcessInput): Promise<BriefProcessLine[]> =>
  linesUntilKilled({ program, input, env: place });
