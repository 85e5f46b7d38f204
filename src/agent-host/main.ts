// The agent host: see protocol.ts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { AgentFault, type AgentTurn } from "./agent-fault.ts";
import { type AgentProcess, startAgent } from "./agent-process.ts";
import { chat } from "./chat.ts";
import { createEnding } from "./ending.ts";
import { createEvents, type Events } from "./events.ts";
import { type Inbox, readInput } from "./inbox.ts";
import { agentEnvironment } from "./known-agents.ts";
import type { ProxyAccess } from "./model-proxy.ts";
import { type AgentHostRequest, agentEnds } from "./protocol.ts";
import { createQuestions } from "./questions.ts";
import { takeTurns } from "./turns.ts";

// The protocol libraries take as long to load as a small agent takes to start, so they are loaded
// after the agent's process has started.
const protocol = () => import("./acp.ts");
const results = () => import("./submit-result.ts");

async function main(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { schema: { type: "string" }, result: { type: "string" }, command: { type: "string" } },
  });
  if (positionals[0] === "submit-result") {
    return (await results()).serveSubmitResult(values.schema!, values.result!);
  }
  if (positionals[0] === "greet") return printGreeting(values.command!);
  // We do not know which variables are secret, so all of them count as secrets.
  const secrets = Object.values(process.env).filter((value): value is string => value !== undefined);
  const events = createEvents((line) => void process.stdout.write(line), { secrets });
  const turn = await (positionals[0] === "chat" ? chatOnStdin(events) : doRequest(events));
  events.report({ kind: "end", ...turn });
  // Exit only after the output is written, because the rest of a pipe's buffer would be lost.
  process.stdout.write("", () => process.exit(agentEnds[turn.end]));
}

async function doRequest(events: Events): Promise<AgentTurn> {
  const { request, inbox } = await readInput(process.stdin);
  return runAgent(request, events, (agent) => converse({ request, inbox, agent, events }));
}

async function chatOnStdin(events: Events): Promise<AgentTurn> {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const request = JSON.parse(String((await lines.next()).value)) as AgentHostRequest;
  return runAgent(request, events, (agent) => chat({ request, agent, events, lines }));
}

/** Prints one line of JSON about the agent that this command starts. */
async function printGreeting(command: string): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "wavesmith-greet-"));
  const setting = { command, home, model: null, effort: null };
  const agent = startAgent(command, { cwd: home, env: environment(setting), noise: () => undefined });
  try {
    const { greetAgent } = await protocol();
    process.stdout.write(`${JSON.stringify(await greetAgent(agent))}\n`);
  } catch (error) {
    if (!(error instanceof AgentFault)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = agentEnds[error.turn.end];
  } finally {
    await agent.end(0);
    rmSync(home, { recursive: true, force: true });
  }
}

async function runAgent(
  request: AgentHostRequest,
  events: Events,
  work: (agent: AgentProcess) => Promise<AgentTurn>,
): Promise<AgentTurn> {
  mkdirSync(request.home, { recursive: true, mode: 0o700 });
  const agent = startAgent(request.command, { cwd: request.cwd, env: environment(request), noise: events.noise });
  try {
    return await work(agent);
  } catch (error) {
    if (error instanceof AgentFault) return error.turn;
    throw error;
  } finally {
    events.flush();
    await agent.end(request.graceMs);
  }
}

/**
 * Returns the agent's environment: the job's without npm's variables, which would affect an npm
 * that the agent runs, plus the agent's settings.
 */
function environment({
  command,
  home,
  model,
  effort,
}: Pick<AgentHostRequest, "command" | "home" | "model" | "effort">): Record<string, string> {
  const given = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)) as [string, string][];
  const proxy = proxyAccess();
  const webSearch = /^all$|(^|,)web_search(,|$)/.test(process.env.WAVESMITH_MODEL_TOOLS ?? "");
  return { ...Object.fromEntries(given), ...agentEnvironment(command, { home, model, effort, proxy, webSearch }) };
}

function proxyAccess(): ProxyAccess | null {
  const { WAVESMITH_MODEL_URL: url, WAVESMITH_MODEL_TOKEN: token } = process.env;
  return url === undefined || token === undefined ? null : { url, token };
}

interface Conversation {
  readonly request: AgentHostRequest;
  readonly inbox: Inbox;
  readonly agent: AgentProcess;
  readonly events: Events;
}

async function converse({ request, inbox, agent, events }: Conversation): Promise<AgentTurn> {
  const proxy = proxyAccess();
  const ending = createEnding(request, proxy);
  const resultServer = resultServerOf(request);
  const { hold, why, sign: onSign, loop: onLoop } = ending;
  const questions = createQuestions(request, { events, hold, over: () => why() !== null });
  const { openSession } = await protocol();
  const opened = openSession({ request, agent, events, resultServer, questions, onSign, onLoop });
  opened.then(ending.use, () => undefined); // Its failure is reported where it is awaited.
  try {
    const session = await Promise.race([opened, ending.ended]);
    if ("end" in session) return session;
    const turn = await Promise.race([takeTurns({ request, session, events, ending, proxy, inbox }), ending.ended]);
    return ending.why() ?? turn;
  } finally {
    ending.stop();
  }
}

function resultServerOf({ result, home }: AgentHostRequest) {
  if (result === null) return null;
  const schemaFile = join(home, "result-schema.json");
  mkdirSync(dirname(result.file), { recursive: true });
  rmSync(result.file, { force: true });
  writeFileSync(schemaFile, JSON.stringify(result.schema));
  const program = [...process.execArgv, fileURLToPath(import.meta.url)];
  return {
    command: process.execPath,
    args: [...program, "submit-result", "--schema", schemaFile, "--result", result.file],
  };
}

main().catch((error: unknown) => {
  process.stderr.write(`agent host: ${error instanceof Error ? error.stack : String(error)}\n`, () =>
    process.exit(agentEnds["protocol-error"]),
  );
});
