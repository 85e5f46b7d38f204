import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sourceWarnings } from "../../src/plan/checks/check-source.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";

describe("what a plan runs before any task has written it", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-source-"));
    mkdirSync(join(folder, "seed"));
    writeFileSync(join(folder, "seed", "package.json"), JSON.stringify({ scripts: { build: "tsc" } }));
    writeFileSync(join(folder, "seed", "agent.sh"), "");
  });
  afterEach(() => rmSync(folder, { recursive: true }));
  const warnings = async (fields: Record<string, unknown>, ownRepository: string | null = null): Promise<string[]> => {
    const whole = { name: "p", source: { path: "seed" }, tasks: [{ id: "a", run: "true" }], ...fields };
    const { plan, faults } = parsePlanValue(whole, { baseDir: folder, env: {} });
    expect(faults).toEqual([]);
    return sourceWarnings(plan!, ownRepository);
  };

  it("is named if the source does not have it", async () => {
    expect(
      await warnings({
        setup: { run: "npm ci" },
        agents: { backend: { runtime: "command", command: "sh ./worker.sh" } },
        tasks: [
          { id: "a", agent: "backend", instructions: "go" },
          { id: "b", run: "npm run generate" },
          { id: "c", run: "node scripts/make.js" },
        ],
      }),
    ).toEqual([
      "setup is skipped until there is package-lock.json or npm-shrinkwrap.json: npm ci needs it",
      "task b runs `npm run generate`, and the source has no script generate in package.json",
      "task c runs `node scripts/make.js`, and the source has no file scripts/make.js",
      "the role backend runs `sh ./worker.sh`, and the source has no file worker.sh",
    ]);
    expect(await warnings({ source: undefined, tasks: [{ id: "a", run: "npm test" }] })).toEqual([
      "task a runs `npm test`, and the source has no package.json, unless an earlier build of the project made it",
    ]);
    const own = {
      source: undefined,
      tasks: [
        { id: "a", run: "npm run build" },
        { id: "b", run: "npm test" },
      ],
    };
    expect(await warnings(own, join(folder, "seed"))).toEqual([
      "task b runs `npm test`, and the source has no script test in package.json",
    ]);
  });

  it("is not named if the source has it, a task may have created it by then, or a longer script runs it", async () => {
    expect(
      await warnings({
        setup: { run: "npm install", cache: ["package.json"] },
        agents: {
          default: { runtime: "command", command: "sh ./agent.sh" },
          frontend: { runtime: "command", command: "sh ./unused.sh" },
        },
        tasks: [
          { id: "a", agent: "backend", instructions: "go" },
          { id: "b", run: "npm run build" },
          { id: "c", run: "echo > made.sh; sh ./made.sh" },
          { id: "d", dependsOn: ["a"], run: "node scripts/make.js" },
        ],
      }),
    ).toEqual([]);
    expect(await warnings({ source: { git: "https://example.com/a.git" }, setup: { run: "npm ci" } })).toEqual([]);
  });
});
