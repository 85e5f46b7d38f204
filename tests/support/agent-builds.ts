import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { bundle } from "../../src/sandbox/guest/guest-program.ts";
import { type BuildFixture, createBuildFixture, type FixtureOptions } from "./build-fixture.ts";
import { type FakeAnswer, type FakeProviders, type FakeRequest, startFakeProviders } from "./fake-providers.ts";

// Whole builds with agents. The scripted agent is in the source, like a project's own agent, and
// models are on loopback.

export const scripted = { runtime: "acp", command: "exec node agent.mjs" };
export const builtin = { runtime: "builtin", model: "anthropic:claude-sonnet-4-5" };

export interface AgentBuilds {
  /** Contains `seed`, the source. */
  readonly folder: string;
  readonly fixture: BuildFixture;
  readonly providers: FakeProviders;
  /** The model's answers, which the test sets; by default it answers "done". */
  answers: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>;
  /** Opens the app that the test builds with. The caller closes an app that it opened before. */
  open(options?: FixtureOptions): Promise<void>;
}

/** Creates fixtures for each test in this file, and closes them after it. */
export function agentBuilds(): AgentBuilds {
  let programs = "";
  const world = {} as { -readonly [Key in keyof AgentBuilds]: AgentBuilds[Key] };
  world.open = async (options = {}) => {
    const env = { ANTHROPIC_API_KEY: "real-key", ANTHROPIC_BASE_URL: world.providers.url, ...options.env };
    world.fixture = await createBuildFixture({ ...options, env });
  };
  beforeAll(async () => {
    programs = mkdtempSync(join(tmpdir(), "wavesmith-scripted-"));
    const code = await bundle(fileURLToPath(new URL("./scripted-agent.ts", import.meta.url)));
    writeFileSync(join(programs, "agent.mjs"), code);
  });
  afterAll(() => rmSync(programs, { recursive: true, force: true }));
  beforeEach(async () => {
    world.folder = mkdtempSync(join(tmpdir(), "wavesmith-agents-"));
    mkdirSync(join(world.folder, "seed"));
    copyFileSync(join(programs, "agent.mjs"), join(world.folder, "seed/agent.mjs"));
    world.answers = () => ({ text: "done" });
    world.providers = await startFakeProviders((request) => world.answers(request));
  });
  afterEach(async () => {
    await world.fixture.close();
    await world.providers.close();
    rmSync(world.folder, { recursive: true, force: true });
  });
  return world;
}
