import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { testDatabase } from "../support/database.ts";
import { type FakeAnswer, type FakeRequest, startFakeProviders } from "../support/fake-providers.ts";
import { isStep, type McpServer, mcpAgents, mcpCall, runMcpAgent } from "../support/mcp-agents.ts";
import { serveMcp } from "../support/mcp-served.ts";
import { requires } from "../support/require.ts";

// Claude Code and Codex use Wavesmith over MCP: they find its tools, call them, and show the
// answers to their model.

const bin = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
const plan = `name: served
gates: { testing: false, critic: false, integration: false }
tasks:
  - { id: a, run: 'echo made by a > a.txt' }
`;

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface World {
  readonly server: McpServer;
  /** The name of a project whose builds are driven. */
  readonly project: string;
}

async function overHttp(): Promise<World> {
  const { url, key, project, close } = await serveMcp();
  closers.push(close);
  return { server: { url, key }, project };
}

async function overStdio(): Promise<World> {
  const dataDir = newFolder();
  const database = await testDatabase();
  closers.push(() => database.close());
  const env = {
    ...{ PATH: process.env.PATH ?? "", WAVESMITH_DATA: dataDir, DATABASE_URL: database.url },
    WAVESMITH_SANDBOX: requires("bubblewrap") ? "local" : "local-unsafe",
  };
  // An agent kills its MCP servers when it exits, so the build's sandbox may still be there.
  closers.push(() => removeSandboxes(env));
  return { server: { args: [bin, "mcp"], env }, project: "served" };
}

async function removeSandboxes(env: Readonly<Record<string, string>>): Promise<void> {
  const { store, ports, config, close } = await createApp({ config: loadConfig(env), warn: () => undefined });
  const driver = ports.driver(config.sandboxDriver);
  for (const { id } of await store.projects.list({})) await driver.remove(id, { volume: true });
  await close();
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-mcp-"));
  closers.push(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const ways = [
  ["wavesmith mcp", overStdio],
  ["POST /mcp", overHttp],
] as const;
const cases = mcpAgents.flatMap((name) => ways.map(([way, open]) => ({ name, way, open })));

describe.runIf(requires("agents"))("over MCP", { timeout: 240_000 }, () => {
  it.each(cases)("$name checks a plan, starts a build and sees its end by $way", async ({ name, open }) => {
    const { server, project } = await open();
    const steps: readonly ((heard: string) => FakeAnswer)[] = [
      () => call("check_plan", { plan }),
      () => call("start_build", { project, plan }),
      (heard) => call("build_status", { build: idIn(heard), waitSeconds: 45 }),
      (heard) => call("build_diff", { build: idIn(heard) }),
    ];
    const call = (tool: string, args: object): FakeAnswer => ({ text: "on it", tools: [mcpCall[name](tool, args)] });
    const heard: string[] = [];
    const providers = await startFakeProviders((request: FakeRequest) => {
      if (!isStep(request)) return { text: "a title" };
      heard.push(JSON.stringify(request.body).replaceAll("\\", ""));
      return steps[heard.length - 1]?.(heard.at(-1) ?? "") ?? { text: "the build is done" };
    });
    closers.push(() => providers.close());
    const output = await runMcpAgent(name, { folder: newFolder(), server, modelUrl: providers.url });
    expect(heard, output).toHaveLength(steps.length + 1);
    expect(output).toContain("the build is done");
    const [, checked, started, ended, shown] = heard;
    expect(checked).toContain('"faults":[]');
    expect(started).toMatch(/"buildId":"bld_/);
    expect(ended).toContain('"status":"completed"');
    expect(shown).toContain("+made by a");
  });
});

const idIn = (heard: string): string => /"buildId":"(bld_\w+)"/.exec(heard)?.[1] ?? "none";
