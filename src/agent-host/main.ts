// The agent host: see protocol.ts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Session } from "./acp.ts";
import { AgentFault, type Turn } from "./agent-fault.ts";
import { type AgentProcess, startAgent } from "./agent-process.ts";
import { createEvents, type Events } from "./events.ts";
import { agentEnvironment } from "./known-agents.ts";
import { type AgentHostRequest, agentEnds, resultReasks } from "./protocol.ts";
import { createQuestions } from "./questions.ts";

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
  const turn = await runAgent(JSON.parse(await readStdin()) as AgentHostRequest, events);
  events.report({ kind: "end", ...turn });
  // Exit only after the output is written, because the rest of a pipe's buffer would be lost.
  process.stdout.write("", () => process.exit(agentEnds[turn.end]));
}

/** Prints one line of JSON about the agent that this command starts. */
async function printGreeting(command: string): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "wavesmith-greet-"));
  const setting = { command, home, model: null };
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

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

async function runAgent(request: AgentHostRequest, events: Events): Promise<Turn> {
  mkdirSync(request.home, { recursive: true, mode: 0o700 });
  const agent = startAgent(request.command, { cwd: request.cwd, env: environment(request), noise: events.noise });
  try {
    return await converse(request, agent, events);
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
}: Pick<AgentHostRequest, "command" | "home" | "model">): Record<string, string> {
  const given = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)) as [string, string][];
  const url = process.env.WAVESMITH_MODEL_URL;
  const token = process.env.WAVESMITH_MODEL_TOKEN;
  const proxy = url === undefined || token === undefined ? null : { url, token };
  const webSearch = /^all$|(^|,)web_search(,|$)/.test(process.env.WAVESMITH_MODEL_TOOLS ?? "");
  return { ...Object.fromEntries(given), ...agentEnvironment(command, { home, model, proxy, webSearch }) };
}

const providerCheckTimeoutMs = 10_000;

/**
 * Whether the agent is silent because a provider is busy, or because the model proxy is down and
 * not answering until it is started again.
 */
async function waitsForProvider(): Promise<boolean> {
  const { WAVESMITH_MODEL_URL: url, WAVESMITH_MODEL_TOKEN: token } = process.env;
  if (url === undefined || token === undefined) return false;
  try {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${url}/wavesmith/waiting`, {
      headers,
      signal: AbortSignal.timeout(providerCheckTimeoutMs),
    });
    if (!response.ok) return false;
    return Number(((await response.json()) as { waiting?: unknown }).waiting) > 0;
  } catch (error) {
    return error instanceof Error && error.name === "TimeoutError";
  }
}

async function converse(request: AgentHostRequest, agent: AgentProcess, events: Events): Promise<Turn> {
  const ending = createEnding(request);
  const resultServer = resultServerOf(request);
  const { hold, why, sign: onSign, loop: onLoop } = ending;
  const questions = createQuestions(request, { events, hold, over: () => why() !== null });
  const { openSession } = await protocol();
  const opened = openSession({ request, agent, events, resultServer, questions, onSign, onLoop });
  opened.then(ending.use, () => undefined); // Its failure is reported where it is awaited.
  try {
    const session = await Promise.race([opened, ending.ended]);
    if ("end" in session) return session;
    const turn = await Promise.race([untilResult(request, session), ending.ended]);
    return ending.why() ?? turn;
  } finally {
    ending.stop();
  }
}

/** Prompts the agent, and prompts again while a required result is missing or invalid. */
async function untilResult(request: AgentHostRequest, session: Session): Promise<Turn> {
  let text = request.prompt;
  for (let reasks = 0; ; reasks += 1) {
    const turn = await session.prompt(text);
    if (turn.end !== "finished" || request.result === null) return turn;
    const { problems } = (await results()).readResult(request.result.schema, request.result.file);
    if (problems?.length === 0) return turn;
    const complaint =
      problems === null ? "You have not submitted your result." : `Your result is not valid:\n${problems.join("\n")}`;
    if (reasks === resultReasks) return { end: "no-result", detail: withoutResult(problems) };
    text = `${complaint}\nCall the tool submit_result now, with a result of its schema; without that tool, write the JSON to ${request.result.file}.`;
  }
}

/** Describes a missing result for people; the agent gets another text. */
function withoutResult(problems: readonly string[] | null): string {
  const asked = `and was asked for it ${resultReasks} times more`;
  return problems === null
    ? `it handed in nothing, ${asked}`
    : `what it handed in is not valid, ${asked}:\n${problems.join("\n")}`;
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

interface Ending {
  /** Resolves when we ended the agent and it did not end its turn in time. */
  readonly ended: Promise<Turn>;
  use(session: Session): void;
  sign(): void;
  loop(description: string): void;
  /** Suspends the silence limit until the returned function is called. */
  hold(): () => void;
  /** Returns why we ended it; null when we did not. */
  why(): Turn | null;
  stop(): void;
}

/** Ends an agent that is silent, loops, or is to be cancelled; asks it to stop first. */
function createEnding({ idleMs, graceMs }: AgentHostRequest): Ending {
  let session: Session | null = null;
  let reason: Turn | null = null;
  let settle: (turn: Turn) => void = () => undefined;
  const ended = new Promise<Turn>((resolve) => {
    settle = resolve;
  });
  let grace: NodeJS.Timeout | null = null;
  const end = (turn: Turn): void => {
    if (reason !== null) return;
    reason = turn;
    // An agent that ignores the request is ended after the grace period.
    session?.cancel().catch(() => undefined);
    grace = setTimeout(() => settle(turn), session === null ? 0 : graceMs);
  };
  const stalled = async (): Promise<void> => {
    const timer = idle;
    const isPaused = await waitsForProvider();
    if (idle !== timer) return; // It has spoken meanwhile, or waits for a person, or has ended.
    if (isPaused) return begin();
    end({ end: "stalled", detail: `not a word for ${Math.round(idleMs / 1000)} s` });
  };
  let idle: NodeJS.Timeout | null = setTimeout(stalled, idleMs);
  let held = 0;
  const begin = (): void => {
    if (idle !== null) clearTimeout(idle);
    idle = held === 0 ? setTimeout(stalled, idleMs) : null;
  };
  const cancel = (): void => end({ end: "cancelled", detail: "asked to stop" });
  process.on("SIGTERM", cancel).on("SIGINT", cancel);
  return {
    ended,
    use(opened) {
      session = opened;
    },
    sign: begin,
    hold() {
      held += 1;
      begin();
      return () => {
        held -= 1;
        begin();
      };
    },
    loop: (description) => end({ end: "stalled", detail: description }),
    why: () => reason,
    stop() {
      if (idle !== null) clearTimeout(idle);
      idle = null;
      if (grace !== null) clearTimeout(grace);
      process.off("SIGTERM", cancel).off("SIGINT", cancel);
    },
  };
}

main().catch((error: unknown) => {
  process.stderr.write(`agent host: ${error instanceof Error ? error.stack : String(error)}\n`, () =>
    process.exit(agentEnds["protocol-error"]),
  );
});
