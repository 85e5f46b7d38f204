// An entry point like parts.ts: gives `agents` and `agents install` the parts they need.
import { randomBytes } from "node:crypto";
import { existsSync, symlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { type ProjectId, randomIds } from "../../domain/ids.ts";
import { type ListedModel, listModels } from "../../models/limits.ts";
import type { ModelProvider } from "../../models/port.ts";
import { createDriver, traitsOf } from "../../sandbox/drivers/registry.ts";
import type { SandboxDriver, SandboxEndpoint } from "../../sandbox/port.ts";
import type { Installation, InstallProgress } from "../../sandbox/tools/install.ts";
import {
  containerPlatform,
  hostPlatform,
  listInstalled,
  type Platform,
  toolsFolder,
} from "../../sandbox/tools/place.ts";
import { findPinned, pinnedAgents, programOf } from "../../sandbox/tools/table.ts";
import { type Config, isUsed, openStore } from "../parts.ts";

export type { Installation, InstallProgress } from "../../sandbox/tools/install.ts";

/**
 * Installs a pinned agent for the sandboxes of this driver. Fails with `usage` if no agent is
 * pinned under that name.
 */
export async function installAgentByName(
  config: Config,
  name: string,
  watch: { onProgress: (progress: InstallProgress) => void; signal: AbortSignal },
): Promise<Installation> {
  const agent = findPinned(name);
  if (agent === null) {
    throw new WavesmithError("usage", `there is no pinned agent ${name}`, {
      remedy: `use one of ${pinnedAgents.map((pinned) => pinned.name).join(", ")}; install any other on PATH yourself`,
    });
  }
  const install = await import("../../sandbox/tools/install.ts");
  const { dataDir, environment } = config;
  return install.installAgent(agent, { dataDir, environment, platform: await platformOf(config), ...watch });
}

/** Returns the platform that programs in this driver's sandboxes must be built for. */
async function platformOf({ sandboxDriver, environment }: Config): Promise<Platform> {
  if (traitsOf(sandboxDriver).machine === "host") return hostPlatform();
  const { connectEngine, engineProblem } = await import("../../sandbox/drivers/docker/engine/engine.ts");
  const problem = await engineProblem(environment);
  if (problem !== null) throw new WavesmithError("environment", problem.what, { remedy: problem.remedy });
  const info = (await connectEngine(environment).info()) as { Architecture: string };
  return containerPlatform(info.Architecture);
}

/** An agent that can be tried, and what is known before trying it. */
export interface KnownAgent {
  readonly name: string;
  readonly title: string;
  readonly runtime: "acp" | "builtin";
  /** The command as a plan names it; null for the built-in agent. */
  readonly command: string | null;
  readonly providers: readonly string[];
  readonly pinned: { readonly package: string; readonly version: string } | null;
  /** The version that `agents install` installed; null if none. */
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

/** The result of a handshake with an agent in a sandbox. */
export type Greeting =
  /** `program` is the agent's path in the sandbox. */
  | { readonly answers: true; readonly program: string; readonly agent: string; readonly resumes: boolean }
  | { readonly answers: false; readonly program: string | null; readonly problem: string };

const greetLimitMs = 90_000;
/** How long the trial sandbox outlives this process if it is killed. */
const silenceMs = 120_000;

/**
 * Tries all agents in parallel in a temporary sandbox: from its PATH, without a network, started as
 * a task would start them. Fails with `environment` if no sandbox can start.
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
  const greetRequest = { argv, cwd: "", env: {}, writable: [], timeoutMs: greetLimitMs, maxBytes: 64 * 1024 };
  const result = await guest.exec(greetRequest);
  const [found = "", answer = ""] = result.stdout.split("\n");
  const place = found === "" ? null : found;
  if (result.timedOut) return { answers: false, program: place, problem: `no answer in ${greetLimitMs / 1000} s` };
  if (place === null) return { answers: false, program: null, problem: "it is not installed" };
  try {
    return { answers: true, program: place, ...(JSON.parse(answer) as { agent: string; resumes: boolean }) };
  } catch {
    // The agent printed nothing or something else, so its standard error explains why.
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
      const network = {
        mode: traitsOf(config.sandboxDriver).isolation === "none" ? "open" : "none",
        hosts: [],
      } as const;
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
    // An engine keeps installed agents in a volume that the installation owns.
    installationId: traitsOf(sandboxDriver).machine === "engine" ? await installationOf(config) : "trial",
  });
}

/** Returns the id that owns the volume of installed agents; `trial` if there is none. */
async function installationOf(config: Config): Promise<string> {
  if (!existsSync(join(config.dataDir, "tools")) && !isUsed(config)) return "trial";
  const opened = await openStore(config, "agents");
  try {
    return await opened.store.installationId();
  } finally {
    await opened.close();
  }
}

/** Asks the servers of compatible models which ones they have; limits that a person set count. */
export async function compatibleModels({ models }: Config): Promise<CompatibleServer[]> {
  const servers = models.providers.filter(({ name }) => name.startsWith("compatible"));
  return Promise.all(
    servers.map(async (provider): Promise<CompatibleServer> => {
      try {
        const listed = await listModels(provider);
        return { name: provider.name, models: listed.map((model) => withSetLimits(model, provider)), problem: null };
      } catch (error) {
        return { name: provider.name, models: [], problem: messageOf(error) };
      }
    }),
  );
}

const withSetLimits = (model: ListedModel, { limits }: Pick<ModelProvider, "limits">): ListedModel => ({
  name: model.name,
  contextTokens: limits?.contextTokens ?? model.contextTokens,
  outputTokens: limits?.outputTokens ?? model.outputTokens,
});

/** A server of compatible models, and the models it lists. */
export interface CompatibleServer {
  readonly name: string;
  readonly models: readonly ListedModel[];
  /** Why the server cannot list its models; null if it can. */
  readonly problem: string | null;
}

/** The setting that each provider of models signs in with; providers without one are absent. */
export function signIns({ models, environment }: Config): Map<string, string> {
  const settings: Readonly<Record<string, readonly string[]>> = {
    anthropic: ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"],
    openai: ["OPENAI_API_KEY"],
    google: ["GEMINI_API_KEY"],
    compatible: ["WAVESMITH_COMPATIBLE_URL"],
  };
  const settingsOf = (name: string): readonly string[] =>
    name.startsWith("compatible-") ? ["WAVESMITH_COMPATIBLE_SERVERS"] : (settings[name] ?? []);
  const found = models.providers.map(({ name }) => [name, settingsOf(name).find((key) => environment[key])] as const);
  return new Map(found.flatMap(([name, key]) => (key === undefined ? [] : [[name, key] as const])));
}
