import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { type Command, type CommandPlace, createCommandPlace } from "./command.ts";
import { type TestDatabase, testDatabase } from "./database.ts";
import { engine } from "./docker-harness.ts";
import {
  type FakeAnswer,
  type FakeCall,
  type FakeProviders,
  type FakeRequest,
  offersTools,
  startFakeProviders,
} from "./fake-providers.ts";
import { callsOf, type RealAgent, realAgents, specOf, toolsOf } from "./real-agents.ts";

// The real command with one installed agent, under one driver, whose models are on loopback.

export const provenAgents = ["builtin", ...realAgents] as const;
export type ProvenAgent = (typeof provenAgents)[number];
export const provenDrivers = ["local", "docker"] as const;
export type ProvenDriver = (typeof provenDrivers)[number];
export type Model = (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>;

const builtinSpec = { runtime: "builtin", model: "anthropic:claude-sonnet-5" } as const;
const builtinCalls: ReturnType<typeof callsOf> = {
  write: (path, content) => ({ name: "write_file", input: { path, content } }),
  run: (command) => ({ name: "exec", input: { command } }),
};

/** The agent as a plan names it. */
export const planSpecOf = (agent: ProvenAgent) => (agent === "builtin" ? builtinSpec : specOf(agent));

/** How this agent's model writes a file and runs a command. */
export const wordsOf = (agent: ProvenAgent) => (agent === "builtin" ? builtinCalls : callsOf(agent));

const used = { inputTokens: 100, outputTokens: 20 };

/** Counts the tools that the agent has called so far in the conversation of this request. */
export const callsMade = ({ body }: FakeRequest): number =>
  JSON.stringify([body?.messages, body?.input, body?.contents]).match(
    /"type":"(tool_use|function_call|custom_tool_call)"|"functionCall":/g,
  )?.length ?? 0;

/**
 * A model that makes these calls, one per turn, and then says "done". It looks only at the request,
 * so a repeated call gets the same answer.
 */
export const stepsOf =
  (steps: readonly FakeCall[]): ((request: FakeRequest) => FakeAnswer) =>
  (request) => {
    if (!offersTools(request)) return { text: "a title", ...used };
    const step = steps[callsMade(request)];
    return step === undefined ? { text: "done", ...used } : { text: "on it", tools: [step], ...used };
  };

export interface BuildEnd {
  readonly code: number | null;
  readonly status: string;
  readonly text: string;
  /** Reads a file of what the build delivered. */
  file(path: string): string;
}

export interface AgentPlace {
  readonly command: CommandPlace;
  readonly store: Store;
  readonly providers: FakeProviders;
  model: Model;
  /** Writes a plan with these tasks for the agent; returns its path. */
  plan(tasks: readonly Record<string, unknown>[], rest?: Record<string, unknown>): string;
  /** Waits for `build --json` or `resume --json`. */
  endOf(command: Command): Promise<BuildEnd>;
  removeSandbox(project: string): Promise<void>;
  close(): Promise<void>;
}

/** Opens a data directory in which this agent is installed. */
export async function openAgentPlace(agent: ProvenAgent, driver: ProvenDriver): Promise<AgentPlace> {
  const database = await testDatabase();
  const place = {} as { -readonly [Key in keyof AgentPlace]: AgentPlace[Key] };
  place.model = () => ({ text: "done" });
  place.providers = await startFakeProviders((request) => place.model(request));
  const { url } = place.providers;
  place.command = createCommandPlace({
    ...{ WAVESMITH_SANDBOX: driver, DATABASE_URL: database.url, WAVESMITH_MODEL_PATIENCE: "1s" },
    ...{ ANTHROPIC_API_KEY: "real-key", ANTHROPIC_BASE_URL: url, OPENAI_API_KEY: "real-key", OPENAI_BASE_URL: url },
    ...{ GEMINI_API_KEY: "real-key", GEMINI_BASE_URL: url },
  });
  place.store = createStore(database.pool);
  if (agent !== "builtin") install(agent, place.command.data);
  place.plan = (tasks, rest) => writePlan(place.command, agent, { tasks, rest });
  place.endOf = (command) => readEnd(command);
  place.removeSandbox = async (project) => {
    await place.command.run("sandbox", "rm", project, "--volume");
  };
  place.close = () => closePlace(place, database, driver);
  return place;
}

/** Copies agents from the cache, as `agents install` would. */
function install(agent: RealAgent, data: string): void {
  mkdirSync(join(data, "tools"), { recursive: true });
  const copy = (...how: string[]) => spawnSync("cp", [...how, `${toolsOf(agent)}/.`, join(data, "tools")]).status === 0;
  // Links are quick to make when both folders are on one disk.
  if (!copy("-al") && !copy("-a")) throw new Error(`${agent} could not be copied to ${data}`);
}

function writePlan(
  command: CommandPlace,
  agent: ProvenAgent,
  { tasks, rest = {} }: { tasks: readonly Record<string, unknown>[]; rest?: Record<string, unknown> | undefined },
): string {
  const whole = tasks.map((task) => ({
    ...{ agent: "backend", instructions: `Do as your model says: ${task.id}.`, retries: 0 },
    ...task,
  }));
  return command.plan("proof", whole, {
    gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
    agents: { backend: planSpecOf(agent) },
    ...rest,
  });
}

async function readEnd(command: Command): Promise<BuildEnd> {
  const code = await command.ended;
  const text = command.text();
  const lines = text.split("\n").filter((line) => line.startsWith('{"type":"build.finished"'));
  if (lines.length !== 1) throw new Error(`the command ended with ${code}:\n${text}`);
  const { status, repository } = JSON.parse(lines[0]!) as { status: string; repository: string };
  const file = (path: string) => execFileSync("git", ["-C", repository, "show", `main:${path}`], { encoding: "utf8" });
  return { code, status, text, file };
}

async function closePlace(place: AgentPlace, database: TestDatabase, driver: ProvenDriver): Promise<void> {
  for (const { name } of await place.store.projects.list({})) await place.removeSandbox(name);
  if (driver === "docker") {
    const filters = { label: [`io.wavesmith.installation=${await place.store.installationId()}`] };
    const { Volumes } = await engine().listVolumes({ filters: JSON.stringify(filters) as never });
    for (const { Name } of Volumes ?? []) await engine().getVolume(Name).remove();
  }
  place.command.close();
  await place.providers.close();
  await database.close();
}

/** Whether a process on this machine, in a sandbox or not, has this text in its command line. */
export const isRunning = (marker: string): boolean =>
  readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(marker);
    } catch {
      return false; // It has just ended.
    }
  });
