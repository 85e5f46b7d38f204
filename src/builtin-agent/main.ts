// The built-in agent: an agent of the Agent Client Protocol (v1) on stdin and stdout. It works with
// any model `provider:model` through the model proxy, in the tree where it is started.
import { randomBytes } from "node:crypto";
import { Readable, Writable } from "node:stream";
import {
  type AgentContext,
  agent,
  type ContentBlock,
  type McpServer,
  methods,
  ndJsonStream,
  type PermissionOption,
  RequestError,
  type RequestPermissionResponse,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import type { ModelMessage, Tool, UserContent } from "ai";
import { z } from "zod";
import { type BackgroundPrograms, createBackground } from "./background.ts";
import { errorText, Overflow, takeTurn } from "./conversation.ts";
import { createTreeFiles, Refused, type TreeFiles } from "./files.ts";
import { openServedTools, type ServedTools } from "./mcp-tools.ts";
import { createMessageQueue, type MessageQueue } from "./message-queue.ts";
import { type ChosenModel, chooseModel, efforts, type ModelAccess } from "./models.ts";
import { surroundings } from "./prompt.ts";
import { createSavedSessions } from "./saved-session.ts";
import { createDelegateTool } from "./tools/delegate.ts";
import type { ToolAction, ToolSetting } from "./tools/perform.ts";
import { createTodoTool } from "./tools/todo.ts";
import { createTools } from "./tools/tools.ts";
import { isFull, tokensOf, withoutImages } from "./window.ts";

const maxResultLength = 2_000;

interface Session {
  readonly tree: string;
  readonly files: TreeFiles;
  readonly background: BackgroundPrograms;
  readonly servers: readonly McpServer[];
  messages: readonly ModelMessage[];
  cancel: AbortController | null;
  /** Null between turns. */
  queue: MessageQueue | null;
}

interface Turn {
  readonly sessionId: string;
  readonly session: Session;
  readonly client: AgentContext;
  readonly signal: AbortSignal;
  readonly queue: MessageQueue;
}

/** Gives the model a person's text in the middle of its turn; an extension of the protocol. */
const tellMethod = "_wavesmith/tell";
const tellParams = z.object({ sessionId: z.string(), text: z.string() });

const sessions = new Map<string, Session>();
const savedSessions = createSavedSessions(process.env.HOME ?? ".");

/** Returns the model that the environment selects, and the way to it. */
function modelSetting(): { name: string; access: ModelAccess } {
  const { WAVESMITH_MODEL: name, WAVESMITH_MODEL_URL: url, WAVESMITH_MODEL_TOKEN: token } = process.env;
  if (url === undefined || token === undefined) throw new RequestError(-32000, "no model proxy: not signed in");
  if (name === undefined)
    throw new RequestError(-32602, "no model: name one in the plan's role, such as model: anthropic:claude-sonnet-5");
  return { name, access: { url, token } };
}

async function chosenModel(): Promise<ChosenModel> {
  const { name, access } = modelSetting();
  const effort = efforts.find((one) => one === process.env.WAVESMITH_MODEL_EFFORT) ?? null;
  return chooseModel(name, access, effort).catch((error: Error) => {
    throw new RequestError(-32602, error.message);
  });
}

const notifyClient = (
  { sessionId, client }: Pick<Turn, "sessionId" | "client">,
  update: SessionUpdate,
): Promise<void> => client.notify(methods.client.session.update, { sessionId, update });

const options: PermissionOption[] = [
  { optionId: "once", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

/**
 * Returns a wrapper that reports a tool call from start to end, and asks permission to change or
 * run something. A helper's calls have its name in front.
 */
function createToolRunner(turn: Turn, helper: string | null = null): ToolSetting["perform"] {
  return async <Result>(toolAction: ToolAction, work: () => Promise<Result> | Result): Promise<Result> => {
    const { id: toolCallId, action: kind, paths, input: rawInput, change } = toolAction;
    const title = helper === null ? toolAction.title : `${helper}: ${toolAction.title}`;
    const diff = change && { type: "diff" as const, path: change.path, oldText: change.before, newText: change.after };
    const content = diff === undefined ? [] : [diff];
    const call = { toolCallId, title, kind, content, locations: paths.map((path) => ({ path })), rawInput };
    await notifyClient(turn, { sessionUpdate: "tool_call", ...call, status: "pending" });
    const settled = (status: "completed" | "failed", rawOutput?: unknown) =>
      notifyClient(turn, { sessionUpdate: "tool_call_update", toolCallId, status, rawOutput });
    try {
      const refusal = kind === "edit" || kind === "execute" ? await askPermission(turn, call) : null;
      if (refusal !== null) throw new Refused(refusal);
      const result = await work();
      // Enough to tell whether the same call had the same result.
      await settled(
        toolAction.hasFailed?.(result) === true ? "failed" : "completed",
        JSON.stringify(result ?? null).slice(-maxResultLength),
      );
      return result;
    } catch (error) {
      await settled("failed", error instanceof Refused ? error.message : undefined);
      throw error;
    }
  };
}

/** Returns why an action was refused; null if it was allowed. */
async function askPermission({ sessionId, client }: Turn, toolCall: object): Promise<string | null> {
  const request = { sessionId, toolCall, options };
  const { outcome, _meta } = await client.request<RequestPermissionResponse>(
    methods.client.session.requestPermission,
    request,
  );
  if (outcome.outcome === "selected" && outcome.optionId === "once") return null;
  return `it was not allowed${typeof _meta?.reason === "string" ? `: ${_meta.reason}` : ""}`;
}

/** Shows a text of the agent to people. */
const sayTo =
  (turn: Turn) =>
  (kind: "message" | "thought", text: string): Promise<void> =>
    notifyClient(turn, {
      sessionUpdate: kind === "message" ? "agent_message_chunk" : "agent_thought_chunk",
      content: { type: "text", text },
    });

/** Creates the tools of a turn, helpers included. */
function createTurnTools(turn: Turn, chosen: ChosenModel, served: ServedTools): Record<string, Tool> {
  const { session, signal } = turn;
  const { tree, background } = session;
  const { seesImages } = chosen;
  const perform = createToolRunner(turn);
  const workTools = (setting: Pick<ToolSetting, "files" | "perform">): Record<string, Tool> => ({
    ...createTools({ tree, signal, ...setting }, { background, seesImages }),
    ...served.createTools(setting.perform),
  });
  return {
    ...workTools({ files: session.files, perform }),
    ...served.createResultTools(perform),
    todo: createTodoTool((entries) =>
      notifyClient(turn, {
        sessionUpdate: "plan",
        entries: entries.map((entry) => ({ ...entry, priority: "medium" as const })),
      }),
    ),
    delegate: createDelegateTool({
      ...{ tree, chosen, signal, perform },
      createHelperTools: (helper) =>
        workTools({ files: createTreeFiles(tree), perform: createToolRunner(turn, helper) }),
      showReport: (text) => sayTo(turn)("thought", text),
    }),
  };
}

async function answerPrompt(turn: Turn, prompt: UserContent): Promise<StopReason> {
  const { sessionId, session, signal, queue } = turn;
  const chosen = await chosenModel();
  const served = await openServedTools(session.servers, process.env);
  for (const title of served.faults) await notifyClient(turn, { sessionUpdate: "notice", severity: "warning", title });
  const tools = createTurnTools(turn, chosen, served);
  const save = (overflowed = false): void =>
    savedSessions.save(sessionId, { messages: [...session.messages], overflowed });
  const messages: readonly ModelMessage[] = [...session.messages, { role: "user", content: prompt }];
  // An earlier attempt's model may have seen images that this one cannot.
  session.messages = chosen.seesImages ? messages : messages.map(withoutImages);
  save();
  const reportUsage = (tokens: number | undefined): Promise<void> =>
    notifyClient(turn, {
      sessionUpdate: "usage_update",
      used: tokens ?? tokensOf(session.messages),
      size: chosen.windowTokens,
    });
  try {
    return await takeTurn({ conversation: session, chosen, tools, signal, queue, save, say: sayTo(turn), reportUsage });
  } catch (error) {
    if (signal.aborted) return "cancelled";
    if (error instanceof Overflow) save(true);
    throw error instanceof RequestError ? error : new RequestError(-32603, errorText(error));
  } finally {
    await served.close();
  }
}

/** The parts of a prompt for a model; the first prompt of a session also describes the tree. */
async function promptFor({ session, signal }: Turn, blocks: readonly ContentBlock[]): Promise<UserContent> {
  const about = session.messages.length === 0 ? `${await surroundings(session.tree, signal)}\n\n` : "";
  const text = blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
  const images = blocks.flatMap((block) =>
    block.type === "image" ? [{ type: "image" as const, image: block.data, mediaType: block.mimeType }] : [],
  );
  const whole = `${about}${text}`;
  return images.length === 0 ? whole : [{ type: "text", text: whole }, ...images];
}

function openSession(tree: string, servers: readonly McpServer[], messages: readonly ModelMessage[]): Session {
  const background = createBackground(tree);
  process.once("exit", () => background.close());
  return { tree, files: createTreeFiles(tree), background, servers, messages, cancel: null, queue: null };
}

for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(0));

agent({ name: "wavesmith" })
  .onRequest(methods.agent.initialize, ({ params }) => ({
    protocolVersion: params.protocolVersion,
    agentCapabilities: { loadSession: true, promptCapabilities: { image: true }, _meta: { [tellMethod]: true } },
    agentInfo: { name: "wavesmith", title: "Wavesmith's built-in agent", version: "1" },
  }))
  .onRequest(methods.agent.session.new, async ({ params }) => {
    await chosenModel(); // Fail early when a setting is missing.
    const sessionId = randomBytes(9).toString("base64url");
    sessions.set(sessionId, openSession(params.cwd, params.mcpServers, []));
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, async ({ params }) => {
    const messages = savedSessions.load(params.sessionId);
    // A model with a smaller window may have been chosen since.
    if (messages === null || isFull(messages, (await chosenModel()).windowTokens))
      throw new RequestError(-32002, "there is no such session, or it cannot be continued");
    sessions.set(params.sessionId, openSession(params.cwd, params.mcpServers, messages));
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.cancel?.abort())
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const session = sessions.get(params.sessionId);
    if (session === undefined) throw new RequestError(-32002, "there is no such session");
    const cancel = new AbortController();
    session.cancel = cancel;
    const queue = createMessageQueue();
    session.queue = queue;
    const turn = { sessionId: params.sessionId, session, client, signal: cancel.signal, queue };
    try {
      return { stopReason: await answerPrompt(turn, await promptFor(turn, params.prompt)) };
    } finally {
      session.queue = null;
      queue.close();
    }
  })
  .onRequest(tellMethod, tellParams, async ({ params }) => {
    const queue = sessions.get(params.sessionId)?.queue;
    if (queue == null) throw new RequestError(-32002, "no turn is running");
    await queue.add(params.text);
    return {};
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>));
