// Like parts.ts an entry point: where `agents` and `agents install` reach the parts they need.
import { randomBytes } from "node:crypto";
import { existsSync, symlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { type ProjectId, randomIds } from "../domain/ids.ts";
import { createDriver } from "../sandbox/drivers/registry.ts";
import type { SandboxDriver, SandboxEndpoint } from "../sandbox/port.ts";
import type { Installation, InstallProgress } from "../sandbox/tools/install.ts";
import { containerPlatform, hostPlatform, listInstalled, type Platform, toolsFolder } from "../sandbox/tools/place.ts";
import { findPinned, pinnedAgents, programOf } from "../sandbox/tools/table.ts";
import { type Config, isUsed, openStore } from "./parts.ts";

export type { Installation, InstallProgress } from "../sandbox/tools/install.ts";

/**
 * Installs a pinned agent for the sandboxes of this driver. Fails with `usage` for one that is not
 * known.
 */
export async function installAgent(
  config: Config,
  name: string,
  watch: { onProgress: (progress: InstallProgress) => void; signal: AbortSignal },
): Promise<Installation> {
  const agent = findPinned(name);
  if (agent === null) {
    throw new WavesmithError("usage", `there is no pinned agent ${name}`, {
      remedy: `take one of ${pinnedAgents.map((pinned) => pinned.name).join(", ")}; any other goes on PATH yourself`,
    });
  }
  const install = await import("../sandbox/tools/install.ts");
  const { dataDir, environment } = config;
  return install.installAgent(agent, { dataDir, environment, platform: await platformOf(config), ...watch });
}

/** What programs in the sandboxes of this driver have to be made for. */
async function platformOf({ sandboxDriver, environment }: Config): Promise<Platform> {
  if (sandboxDriver !== "docker") return hostPlatform();
  const { connectEngine, engineProblem } = await import("../sandbox/drivers/docker/engine.ts");
  const problem = await engineProblem(environment);
  if (problem !== null) throw new WavesmithError("environment", problem.what, { remedy: problem.remedy });
  const info = (await connectEngine(environment).info()) as { Architecture: string };
  return containerPlatform(info.Architecture);
}

/** An agent that can be tried, and what we know of it before. */
export interface KnownAgent {
  readonly name: string;
  readonly title: string;
  readonly runtime: "acp" | "builtin";
  /** As a plan says it; null for our own. */
  readonly command: string | null;
  readonly providers: readonly string[];
  readonly pinned: { readonly package: string; readonly version: string } | null;
  /** The version that `agents install` has put there; null: none. */
  readonly installed: string | null;
}

export async function knownAgents(config: Config): Promise<KnownAgent[]> {
  const installed = await installedAgents(config);
  const ours = { name: "builtin", title: "built-in agent", runtime: "builtin", command: null, pinned: null } as const;
  return [
    { ...ours, providers: ["anthropic", "openai", "google", "compatible"], installed: null },
    ...pinnedAgents.map(({ name, title, command, providers, package: id, version }) => ({
      ...{ name, title, command, providers, runtime: "acp" as const, pinned: { package: id, version } },
      installed: installed.get(name) ?? null,
    })),
  ];
}

async function installedAgents(config: Config): Promise<Map<string, string>> {
  if (!existsSync(join(config.dataDir, "tools"))) return new Map();
  const folder = toolsFolder(config.dataDir, await platformOf(config));
  return new Map(listInstalled(folder).map(({ name, version }) => [name, version]));
}

/** What came of a handshake with an agent where agents run. */
export type Greeting =
  /** `program` is where it was found in the sandbox. */
  | { readonly answers: true; readonly program: string; readonly agent: string; readonly resumes: boolean }
  | { readonly answers: false; readonly program: string | null; readonly problem: string };

const greetLimitMs = 90_000;
/** Where the sandbox that is made for it ends itself when we are killed. */
const silenceMs = 120_000;

/**
 * Tries agents, all at once, in a sandbox made for it: on its PATH, without a network, as a task
 * would start them. Fails with `environment` when there can be none.
 */
export async function greetAgents(config: Config, agents: readonly KnownAgent[]): Promise<Greeting[]> {
  return inTrialSandbox(config, ({ guest }) => Promise.all(agents.map((agent) => greet(guest, agent))));
}

const script = `program=$(command -v -- "$1") || exit 127
printf '%s\\n' "$program"
exec node "$WAVESMITH_PROGRAMS/agent-host.mjs" greet --command "$2"`;

async function greet(guest: SandboxEndpoint["guest"], { command }: KnownAgent): Promise<Greeting> {
  const program = command === null ? "node" : programOf({ command });
  const line = command === null ? 'exec node "$WAVESMITH_PROGRAMS/builtin-agent.mjs"' : `exec ${command}`;
  const argv = ["sh", "-c", script, "sh", program, line];
  const asked = { argv, cwd: "", env: {}, writable: [], timeoutMs: greetLimitMs, maxBytes: 64 * 1024 };
  const result = await guest.exec(asked);
  const [found = "", answer = ""] = result.stdout.split("\n");
  const place = found === "" ? null : found;
  if (result.timedOut) return { answers: false, program: place, problem: `no answer in ${greetLimitMs / 1000} s` };
  if (place === null) return { answers: false, program: null, problem: "it is not installed" };
  try {
    return { answers: true, program: place, ...(JSON.parse(answer) as { agent: string; resumes: boolean }) };
  } catch {
    // It said nothing, or not that: what it complained of tells why.
    const words = result.stderr.trim().slice(-500) || `exit code ${result.exitCode ?? result.signal}`;
    return { answers: false, program: place, problem: words };
  }
}

async function inTrialSandbox<Result>(config: Config, use: (endpoint: SandboxEndpoint) => Promise<Result>) {
  const dataDir = await mkdtemp(join(tmpdir(), "wavesmith-agents-"));
  const projectId = `trial_${randomBytes(8).toString("hex")}` as ProjectId;
  try {
    const tools = join(config.dataDir, "tools");
    if (existsSync(tools)) symlinkSync(tools, join(dataDir, "tools"));
    const driver = await trialDriver(config, dataDir);
    const [problem] = await driver.check();
    if (problem !== undefined) throw new WavesmithError("environment", problem.what, { remedy: problem.remedy });
    try {
      const network = { mode: config.sandboxDriver === "local-unsafe" ? "open" : "none", hosts: [] } as const;
      const { limits } = config.sandboxPolicy;
      const sandboxId = randomIds("sandbox");
      return await use(await driver.ensure({ projectId, sandboxId, tenantId: "default", network, limits }));
    } finally {
      await driver.remove(projectId, { volume: true });
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function trialDriver(config: Config, dataDir: string): Promise<SandboxDriver> {
  const { environment, sandboxDriver, sandboxReadOnly } = config;
  return createDriver(sandboxDriver, {
    dataDir,
    environment,
    readOnly: sandboxReadOnly,
    logger: { warn: () => undefined },
    silenceMs,
    // Docker finds the volume with installed agents by the installation.
    installationId: sandboxDriver === "docker" ? await installationOf(config) : "trial",
  });
}

/** The volume with installed agents belongs to it; where there are none, there is none. */
async function installationOf(config: Config): Promise<string> {
  if (!existsSync(join(config.dataDir, "tools")) && !isUsed(config)) return "trial";
  const opened = await openStore(config, "agents");
  try {
    return await opened.store.installationId();
  } finally {
    await opened.close();
  }
}

/** By which setting each provider of models is signed in to; a provider without one is absent. */
export function signIns({ models, environment }: Config): Map<string, string> {
  const settings: Readonly<Record<string, readonly string[]>> = {
    anthropic: ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"],
    openai: ["OPENAI_API_KEY"],
    google: ["GEMINI_API_KEY"],
    compatible: ["WAVESMITH_COMPATIBLE_URL"],
  };
  const found = models.providers.map(({ name }) => [name, settings[name]?.find((key) => environment[key])] as const);
  return new Map(found.flatMap(([name, key]) => (key === undefined ? [] : [[name, key] as const])));
}
