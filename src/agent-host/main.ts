// The agent host: see protocol.ts.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { AgentFault, openSession, type Session, type Turn } from "./acp.ts";
import { type AgentProcess, startAgent } from "./agent-process.ts";
import { createEvents, type Events } from "./events.ts";
import { agentEnvironment } from "./known-agents.ts";
import { type AgentHostRequest, agentEnds, resultReasks } from "./protocol.ts";
import { readResult, serveSubmitResult } from "./submit-result.ts";

async function main(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { schema: { type: "string" }, result: { type: "string" } },
  });
  if (positionals[0] === "submit-result") return serveSubmitResult(values.schema!, values.result!);
  const events = createEvents((line) => void process.stdout.write(line));
  const turn = await run(JSON.parse(await readStdin()) as AgentHostRequest, events);
  events.tell({ kind: "end", ...turn });
  // What was written to a pipe is gone with us unless it is waited for.
  process.stdout.write("", () => process.exit(agentEnds[turn.end]));
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

async function run(request: AgentHostRequest, events: Events): Promise<Turn> {
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

/** What the job has, without npm's own variables, which would steer an npm that the agent calls. */
function environment({ command, home, model }: AgentHostRequest): Record<string, string> {
  const given = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)) as [string, string][];
  const url = process.env.WAVESMITH_MODEL_URL;
  const token = process.env.WAVESMITH_MODEL_TOKEN;
  const proxy = url === undefined || token === undefined ? null : { url, token };
  return { ...Object.fromEntries(given), ...agentEnvironment(command, { home, model, proxy }) };
}

async function converse(request: AgentHostRequest, agent: AgentProcess, events: Events): Promise<Turn> {
  const ending = createEnding(request);
  const resultServer = resultServerOf(request);
  const opened = openSession({ request, agent, events, resultServer, onSign: ending.sign, onLoop: ending.loop });
  opened.then(ending.use, () => undefined); // Its failure is told where it is awaited.
  try {
    const session = await Promise.race([opened, ending.ended]);
    if ("end" in session) return session;
    const turn = await Promise.race([untilResult(request, session), ending.ended]);
    return ending.why() ?? turn;
  } finally {
    ending.stop();
  }
}

/** Prompts, and asks again when the role must hand in a result and has not. */
async function untilResult(request: AgentHostRequest, session: Session): Promise<Turn> {
  let text = request.prompt;
  for (let again = 0; ; again += 1) {
    const turn = await session.prompt(text);
    if (turn.end !== "finished" || request.result === null) return turn;
    const { problems } = readResult(request.result.schema, request.result.file);
    if (problems?.length === 0) return turn;
    const lack =
      problems === null ? "You have not handed in your result." : `Your result is not valid:\n${problems.join("\n")}`;
    if (again === resultReasks) return { end: "no-result", detail: lack };
    text = `${lack}\nCall the tool submit_result now, with a result of its schema; without that tool, write the JSON to ${request.result.file}.`;
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

interface Ending {
  /** Resolves when the agent was ended by us and did not end its turn in time. */
  readonly ended: Promise<Turn>;
  use(session: Session): void;
  sign(): void;
  loop(what: string): void;
  /** Why we ended it; null when we did not. */
  why(): Turn | null;
  stop(): void;
}

/** Ends an agent that is silent, goes round in circles, or is to be cancelled: first by asking. */
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
    // An agent that does not listen is left to its grace.
    session?.cancel().catch(() => undefined);
    grace = setTimeout(() => settle(turn), session === null ? 0 : graceMs);
  };
  const stalled = (): void => end({ end: "stalled", detail: `not a word for ${Math.round(idleMs / 1000)} s` });
  let idle = setTimeout(stalled, idleMs);
  const cancel = (): void => end({ end: "cancelled", detail: "asked to stop" });
  process.on("SIGTERM", cancel).on("SIGINT", cancel);
  return {
    ended,
    use(opened) {
      session = opened;
    },
    sign() {
      clearTimeout(idle);
      idle = setTimeout(stalled, idleMs);
    },
    loop: (what) => end({ end: "stalled", detail: what }),
    why: () => reason,
    stop() {
      clearTimeout(idle);
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
