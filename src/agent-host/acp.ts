// The Agent Client Protocol (v1). Only this file, updates.ts and tool-calls.ts know its types.
import { setTimeout as delay } from "node:timers/promises";
import {
  type ClientConnection,
  type ContentBlock,
  client,
  type InitializeResponse,
  methods,
  type NewSessionRequest,
  ndJsonStream,
  type PermissionOption,
  PROTOCOL_VERSION,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionConfigOption,
  type StopReason,
} from "@agentclientprotocol/sdk";
import { AgentFault, type AgentTurn } from "./agent-fault.ts";
import type { AgentProcess } from "./agent-process.ts";
import { type EarlierSession, findEarlierSession, rememberSession } from "./earlier-session.ts";
import type { Events } from "./events.ts";
import type { PromptImage } from "./images.ts";
import { bindsSessions } from "./known-agents.ts";
import { decidePermission } from "./permission.ts";
import type { AgentHostRequest } from "./protocol.ts";
import type { Questions } from "./questions.ts";
import { pathsOf } from "./tool-calls.ts";
import { createUpdates, type Updates } from "./updates.ts";

/** A refused request for permission. */
export interface RefusedRequest {
  readonly toolCallId: string;
  readonly title: string;
  readonly reason: string;
}

/** A session with an agent. */
export interface AcpSession {
  /**
   * Sends a prompt, with images if the agent takes any; resolves when the agent has ended its turn.
   * Never throws because of what the agent does.
   */
  prompt(text: string, images: readonly PromptImage[]): Promise<AgentTurn>;
  /**
   * Gives the agent a text in the middle of its turn; resolves once it has taken it, rejects when
   * the turn ended first. Null: the agent cannot do that.
   */
  readonly tell: ((text: string) => Promise<void>) | null;
  /** Returns the earlier attempt's session that this one continues; null for a new one. */
  earlier(): EarlierSession | null;
  /**
   * Returns, once, the refused requests after which the agent made no other call. Empty for our
   * own agent, which reads the reason in the answer.
   */
  takeRefusals(): readonly RefusedRequest[];
  /** Whether the agent has reported anything since the last prompt. */
  hasSpoken(): boolean;
  /** Opens a new session in place of this one. Rejects with `AgentFault`. */
  renew(): Promise<void>;
  /** Asks the agent to end its turn. */
  cancel(): Promise<void>;
  close(): void;
}

export interface AgentSessionOptions {
  readonly request: AgentHostRequest;
  readonly agent: AgentProcess;
  readonly events: Events;
  /** The MCP server through which results are submitted; null: none. */
  readonly resultServer: { readonly command: string; readonly args: readonly string[] } | null;
  readonly questions: Questions;
  /** Called for every message from the agent. */
  readonly onSign: () => void;
  /** Called when the agent repeats the same action. */
  readonly onLoop: (description: string) => void;
}

/**
 * Opens a session with an agent: a new one, or the one from an earlier attempt. Rejects with
 * `AgentFault`.
 */
export async function openSession(options: AgentSessionOptions): Promise<AcpSession> {
  const { request } = options;
  const updates = createUpdates(options);
  const refusals: RefusedRequest[] = [];
  const connection = connect(options, updates, refusals);
  const { agent } = connection;
  const untilExit = <Result>(work: Promise<Result>): Promise<Result> => orExit(work, options.agent);
  const toFault = (error: unknown): never => {
    throw error instanceof AgentFault ? error : agentFaultOf(error);
  };
  try {
    const about = await untilExit(introduce(connection));
    const parts = { options, connection, updates, about };
    let current = await untilExit(startSession(parts, sessionToContinue(about, request)));
    return {
      async prompt(text, images) {
        updates.beginTurn();
        const shown = about.agentCapabilities?.promptCapabilities?.image === true ? images : [];
        const prompt: ContentBlock[] = [
          { type: "text", text },
          ...shown.map((image) => ({ type: "image" as const, ...image })),
        ];
        const turn = agent.request(methods.agent.session.prompt, { sessionId: current.id, prompt });
        return untilExit(turn).then(({ stopReason }) => turnOf(stopReason, updates.takeLastMessage()), turnOfFault);
      },
      tell: takesMessages(about)
        ? (text) => untilExit(agent.request(tellMethod, { sessionId: current.id, text })).then(() => undefined)
        : null,
      earlier: () => current.earlier,
      // Our own agent has read the reason, see `answerPermission`.
      takeRefusals: () => (takesMessages(about) ? [] : refusals.splice(0)),
      hasSpoken: () => updates.hasSpoken(),
      async renew() {
        current = await untilExit(startSession(parts, null)).catch(toFault);
      },
      cancel: () => agent.notify(methods.agent.session.cancel, { sessionId: current.id }),
      close: () => connection.close(),
    };
  } catch (error) {
    connection.close();
    return toFault(error);
  }
}

interface SessionParts {
  readonly options: AgentSessionOptions;
  readonly connection: ClientConnection;
  readonly updates: Updates;
  readonly about: InitializeResponse;
}

/** Finds the session that an earlier attempt left, if this agent can continue it in this tree. */
function sessionToContinue(about: InitializeResponse, { command, cwd, home }: AgentHostRequest): EarlierSession | null {
  const earlier = about.agentCapabilities?.loadSession === true ? findEarlierSession(home) : null;
  return bindsSessions(command) && earlier?.cwd !== cwd ? null : earlier;
}

/** Continues an earlier session, or opens a new one if there is none or the agent has lost it. */
async function startSession(
  { options, connection, updates, about }: SessionParts,
  earlier: EarlierSession | null,
): Promise<{ readonly id: string; readonly earlier: EarlierSession | null }> {
  const { request, events } = options;
  const { cwd, home } = request;
  const setting: NewSessionRequest = { cwd, mcpServers: mcpServers(options) };
  const loaded = earlier === null ? null : await load(connection, updates, { ...setting, sessionId: earlier.id });
  const session = loaded ?? (await connection.agent.request(methods.agent.session.new, setting));
  const id = loaded === null ? (session as { sessionId: string }).sessionId : earlier!.id;
  rememberSession(home, { id, cwd });
  const model = await chooseModel(connection, id, session.configOptions ?? [], request.model);
  events.report({ kind: "session", agent: nameOf(about), resumed: loaded !== null, model });
  return { id, earlier: loaded === null ? null : earlier };
}

/** An extension of the protocol, which our own agent has. */
const tellMethod = "_wavesmith/tell";

const takesMessages = ({ agentCapabilities }: InitializeResponse): boolean =>
  agentCapabilities?._meta?.[tellMethod] === true;

/** How an agent describes itself. */
export interface About {
  /** The agent's name and version. */
  readonly agent: string;
  /** Whether a retry can continue the session of the previous attempt. */
  readonly resumes: boolean;
}

/** Asks an agent for its name, without opening a session. Rejects with `AgentFault`. */
export async function greetAgent(agent: AgentProcess): Promise<About> {
  const connection = client({ name: "wavesmith" }).connect(ndJsonStream(agent.input, agent.output));
  try {
    const about = await orExit(introduce(connection), agent);
    return { agent: nameOf(about), resumes: about.agentCapabilities?.loadSession === true };
  } catch (error) {
    throw error instanceof AgentFault ? error : agentFaultOf(error);
  } finally {
    connection.close();
  }
}

const introduce = ({ agent }: ClientConnection): Promise<InitializeResponse> =>
  agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    clientInfo: { name: "wavesmith", version: "1" },
  });

const nameOf = ({ agentInfo }: InitializeResponse): string =>
  `${agentInfo?.title ?? agentInfo?.name ?? "an ACP agent"} ${agentInfo?.version ?? ""}`.trim();

function connect(options: AgentSessionOptions, updates: Updates, refusals: RefusedRequest[]): ClientConnection {
  const { agent, onSign } = options;
  const app = client({ name: "wavesmith" })
    .onNotification(methods.client.session.update, ({ params }) => {
      onSign();
      const { update } = params;
      const goesOn = update.sessionUpdate === "tool_call" && refusals.at(-1)?.toolCallId !== update.toolCallId;
      if (goesOn) refusals.length = 0;
      updates.take(update);
    })
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      onSign();
      return answerPermission(params, options, { updates, refusals });
    })
    // People are asked for permissions only: other decisions belong in the plan.
    .onRequest(methods.client.elicitation.create, () => ({ action: "decline" as const }));
  return app.connect(ndJsonStream(agent.input, agent.output, { maxMessageBytes: 100 * 1024 * 1024 }));
}

const mcpServers = ({ resultServer, request }: AgentSessionOptions): NewSessionRequest["mcpServers"] => [
  ...(resultServer === null
    ? []
    : [{ name: "wavesmith", command: resultServer.command, args: [...resultServer.args], env: [] }]),
  ...request.mcp.map(({ name, command }) => ({ name, command: "sh", args: ["-c", command], env: [] })),
];

/**
 * Loads an earlier session; null when the agent no longer has it. The history it replays is not
 * reported again.
 */
async function load(
  connection: ClientConnection,
  updates: Updates,
  setting: NewSessionRequest & { sessionId: string },
) {
  updates.mute(true);
  try {
    return (await connection.agent.request(methods.agent.session.load, setting)) ?? {};
  } catch (error) {
    if (error instanceof RequestError) return null;
    throw error;
  } finally {
    updates.mute(false);
  }
}

/** Selects the requested model where the agent offers a choice; returns the name it then has. */
async function chooseModel(
  { agent }: ClientConnection,
  sessionId: string,
  offered: readonly SessionConfigOption[],
  wanted: string | null,
): Promise<string | null> {
  const option = offered.find(({ category, type }) => category === "model" && type === "select");
  if (option === undefined || option.type !== "select") return wanted;
  const name = wanted?.slice(wanted.indexOf(":") + 1) ?? null;
  const values = option.options.flatMap((entry) => ("options" in entry ? entry.options : [entry]));
  const match = values.find(({ value }) => name !== null && (value === name || value.endsWith(`/${name}`)));
  if (match === undefined || match.value === option.currentValue) return wanted ?? String(option.currentValue);
  await agent.request(methods.agent.session.setConfigOption, { sessionId, configId: option.id, value: match.value });
  return match.value;
}

/** Chooses an option by its kind, never by its position: agents list `allow_always` first. */
async function answerPermission(
  { toolCall, options }: RequestPermissionRequest,
  { request, events, questions }: AgentSessionOptions,
  { updates, refusals }: { updates: Updates; refusals: RefusedRequest[] },
): Promise<RequestPermissionResponse> {
  const { title, action } = updates.record(toolCall);
  const policy = decidePermission({ action, paths: pathsOf(toolCall) }, { ...request, tree: request.cwd });
  const offered = options.map(({ name, kind }) => ({ name, kind }));
  const answer =
    policy.askable === true ? await questions.ask({ title, action, reason: policy.reason, options: offered }) : null;
  const { allowed, reason } = answer ?? policy;
  const option = chooseOption(options, allowed);
  const isAllowed = allowed && option !== undefined;
  const shownReason = allowed && !isAllowed ? "the agent offers no way to allow it once" : reason;
  const question = answer === null ? {} : { question: answer.question };
  events.report({ kind: "permission", title, action, allowed: isAllowed, reason: shownReason, ...question });
  if (!isAllowed) refusals.push({ toolCallId: toolCall.toolCallId, title, reason: shownReason });
  // The protocol has no field for a reason; our own agent reads this one.
  const _meta = { reason: shownReason };
  if (option === undefined) return { outcome: { outcome: "cancelled" }, _meta };
  return { outcome: { outcome: "selected", optionId: option.optionId }, _meta };
}

/** Prefers an option for one time; a rejection may be permanent. */
function chooseOption(options: readonly PermissionOption[], allowed: boolean): PermissionOption | undefined {
  const once = options.find(({ kind }) => kind === (allowed ? "allow_once" : "reject_once"));
  return once ?? (allowed ? undefined : options.find(({ kind }) => kind === "reject_always"));
}

const turns: Readonly<Record<StopReason, AgentTurn>> = {
  end_turn: { end: "finished", detail: "" },
  max_tokens: { end: "limit", detail: "the model's answer was cut at its output limit", isCut: true },
  max_turn_requests: { end: "limit", detail: "the agent reached its limit of requests" },
  refusal: { end: "refused", detail: "the model refused" },
  cancelled: { end: "cancelled", detail: "cancelled" },
};

/**
 * Converts the end of a turn. An agent may end it normally although its model failed, with the
 * model's error as its last message.
 */
function turnOf(stopReason: StopReason, lastSaid: string): AgentTurn {
  const turn = turns[stopReason] ?? { end: "protocol-error", detail: `it ended with ${stopReason}` };
  const words = lastSaid.trim();
  if (turn.end !== "finished" || !isModelError(words)) return turn;
  return agentFaultOf(new RequestError(-32603, words)).turn;
}

/** Recognizes the model errors that Codex prints: the body of the answer, or its status. */
const isModelError = (words: string): boolean =>
  /^(unexpected status \d{3} |stream disconnected before completion|exceeded retry limit)/.test(words) ||
  /^\{"(type":"error"|error":\{).*\}$/s.test(words);

const turnOfFault = (error: unknown): AgentTurn => (error instanceof AgentFault ? error : agentFaultOf(error)).turn;

/** The model proxy's answer when a budget is used up. */
const budgetWords = /wavesmith: over budget/;
const signInWords = /\b(401|unauthori[sz]ed|not (logged|signed) in|authentication|api[- ]key|no key for|log ?in)\b/i;

/**
 * Converts an error of the protocol into an end; agents use different errors for the same cause.
 */
function agentFaultOf(error: unknown): AgentFault {
  const message = error instanceof Error ? error.message : String(error);
  const data = error instanceof RequestError && error.data !== undefined ? ` ${JSON.stringify(error.data)}` : "";
  const detail = `${message}${data}`.slice(0, 2_000);
  if (budgetWords.test(detail)) return new AgentFault({ end: "over-budget", detail });
  if (!(error instanceof RequestError)) return new AgentFault({ end: "protocol-error", detail });
  if (error.code === -32000 || signInWords.test(detail)) return new AgentFault({ end: "not-signed-in", detail });
  const isOurs = error.code === -32700 || error.code === -32600 || error.code === -32601 || error.code === -32602;
  return new AgentFault({ end: isOurs ? "protocol-error" : "model-error", detail });
}

/** Rejects when the agent's process ends first, because then no answer can come. */
async function orExit<Result>(work: Promise<Result>, agent: AgentProcess): Promise<Result> {
  const ended = agent.exit.then(({ code, signal }): never => {
    const words = agent.lastWords();
    const hint = code === 127 ? " (`wavesmith agents` lists what is installed)" : "";
    const detail = `it ended with ${signal ?? `exit code ${code}`}${words === "" ? "" : `: ${words.slice(-500)}`}${hint}`;
    throw new AgentFault({ end: code === 127 ? "not-installed" : "crashed", detail });
  });
  ended.catch(() => undefined); // Reported through the race, or no longer of interest.
  const answered = work.catch(async (error: unknown) => {
    // A closed connection says less than the exit that follows it.
    if (!(error instanceof RequestError)) await Promise.race([ended, delay(exitWaitMs)]);
    throw error;
  });
  return Promise.race([answered, ended]);
}

const exitWaitMs = 2_000;
