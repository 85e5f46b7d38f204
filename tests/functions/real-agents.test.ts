import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { agentBuilds } from "../support/agent-builds.ts";
import { engine } from "../support/docker-harness.ts";
import { callsOf, type RealAgent, scriptedModel, specOf, toolsOf } from "../support/real-agents.ts";
import { requires } from "../support/require.ts";

// Real agents in whole builds: installed in the data directory, shown read-only in the sandbox,
// with models only through the proxy.

// Volumes with agents belong to an installation, and stay when a project's sandbox is removed.
// Hooks that are registered first run last.
let installation = "";
afterEach(async () => {
  if (installation === "") return;
  const filters = { label: [`io.wavesmith.installation=${installation}`, "io.wavesmith.tools"] };
  const { Volumes } = await engine().listVolumes({ filters: JSON.stringify(filters) as never });
  for (const { Name } of Volumes ?? []) await engine().getVolume(Name).remove();
});

const world = agentBuilds();
const sandboxes: readonly (readonly ["local" | "docker", RealAgent])[] = [
  ...(requires("bubblewrap")
    ? ([
        ["local", "claude"],
        ["local", "codex"],
      ] as const)
    : []),
  // The smallest one, because every installation fills its own volume.
  ...(requires("docker") ? ([["docker", "gemini"]] as const) : []),
];

/**
 * Copies the cached agents into a data directory, as `agents install` would.
 */
function install(name: RealAgent): void {
  const folder = join(world.fixture.app.config.dataDir, "tools");
  const copy = (...how: string[]) => spawnSync("cp", [...how, `${toolsOf(name)}/.`, folder]).status === 0;
  // Links are quick to make when both folders are on one disk.
  if (!copy("-al") && !copy("-a")) throw new Error(`${name} could not be copied to ${folder}`);
}

const plan = (fields: Record<string, unknown>) => ({
  name: "real-agents",
  source: { path: "seed" },
  gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
  network: "none",
  ...fields,
});

async function build(fields: Record<string, unknown>) {
  const buildId = await world.fixture.request(plan(fields), { planFolder: world.folder });
  return world.fixture.until(buildId);
}

describe.runIf(requires("agents")).each(sandboxes)("in the sandbox %s, %s", { timeout: 400_000 }, (sandbox, name) => {
  const open = () =>
    world.open({
      sandbox,
      patienceMs: 300_000,
      env: {
        ...{ OPENAI_API_KEY: "real-key", OPENAI_BASE_URL: world.providers.url },
        ...{ GEMINI_API_KEY: "real-key", GEMINI_BASE_URL: world.providers.url },
      },
    });
  it("is found once it is installed, builds what its model says, and every token is counted", async () => {
    await open();
    installation = sandbox === "docker" ? await world.fixture.app.store.installationId() : "";
    const look = {
      id: "look",
      agent: "backend",
      run: `command -v ${specOf(name).command.split(" ")[0]} > found.txt || echo none > found.txt`,
    };
    expect(await build({ tasks: [look] })).toMatchObject({ status: "completed" });
    expect(await world.fixture.git("show", "main:found.txt")).toBe("none\n");

    install(name);
    world.answers = scriptedModel([callsOf(name).run("echo by a model > made.txt")]);
    const check = "! touch /opt/wavesmith-tools/bin/mine 2>&1 && grep -q 'by a model' made.txt";
    const task = { id: "api", agent: "backend", instructions: "write made.txt", acceptance: [{ check }] };
    const { id, status, reason } = await build({ agents: { backend: specOf(name) }, tasks: [task] });
    const attempts = await world.fixture.app.store.attempts.list({ buildId: id });
    expect({ status, reason }, attempts[0]?.outputTail ?? "").toMatchObject({ status: "completed" });
    expect(await world.fixture.git("show", "main:made.txt")).toBe("by a model\n");
    // Every model call is in the ledger, with its usage.
    const made = world.providers.requests.filter(({ body, path }) => body !== null && !/count_?tokens$/i.test(path));
    const spending = await world.fixture.app.store.buildSpending.get({ buildId: id });
    expect(spending).toMatchObject({ spentTokens: made.length * 120, reservedTokens: 0 });
    expect(JSON.stringify(made.map(({ headers }) => headers))).not.toContain("wst_");
  });
});
