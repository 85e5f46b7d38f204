// An ACP agent that follows a script: each line of its prompt is a command. Tests bundle it
// with `scriptedAgent`.
//
//   say TEXT · think TEXT · write PATH TEXT (asks first) · run CMD · plan A|B
//   usage USED SIZE USD · noise TEXT · crash · keep (writes its prompt to prompt.txt)
//   once (fails at every prompt but the first of its session)
//   over TITLE (a tool call that it reports only when it is over)
//   hang · deaf (hangs, and ignores cancel) · fail CODE TEXT · refuse · limit
//   loop N · varied N (different calls) · polls N (the same call, different results) · flood N
//   submit JSON (by the MCP tool) · env NAME (prints its value)
//   halves NAME (the same in two pieces with a pause, then on stderr)
//   always LINE (at this prompt and at every later one)
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { Readable, Writable } from "node:stream";
import {
  type AgentContext,
  agent,
  type McpServer,
  methods,
  ndJsonStream,
  type PermissionOption,
  RequestError,
  type RequestPermissionResponse,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

interface State {
  cwd: string;
  servers: McpServer[];
  prompts: number;
  /** Runs at every prompt, whatever its text. */
  always?: string[];
}

const sessions = new Map<string, State>();
const memory = resolve(process.env.HOME ?? "/tmp", "scripted-sessions.json");
// Like real agents, lists the option that grants least first.
const options: PermissionOption[] = [
  { optionId: "always", name: "Always", kind: "allow_always" },
  { optionId: "once", name: "Once", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];

interface Turn {
  readonly sessionId: string;
  readonly state: State;
  readonly prompt: string;
  readonly client: AgentContext;
  readonly cancelled: Promise<"cancelled">;
  tell(update: SessionUpdate): Promise<void>;
}

let calls = 0;
const cancels = new Map<string, () => void>();

async function act(line: string, turn: Turn): Promise<StopReason | null> {
  const [word = "", ...rest] = line.split(" ");
  const text = rest.join(" ");
  const { tell, state } = turn;
  switch (word) {
    case "say":
      await tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
      return null;
    case "think":
      await tell({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text } });
      return null;
    case "env":
      await tell({
        sessionUpdate: "agent_message_chunk",
        content: { type: "text", text: `${text}=${process.env[text] ?? ""}` },
      });
      return null;
    case "halves":
      await inHalves(process.env[text] ?? "", turn);
      return null;
    case "write":
      await write(rest[0] ?? "", rest.slice(1).join(" "), turn);
      return null;
    case "run":
      await run(text, state.cwd);
      return null;
    case "plan":
      await tell({
        sessionUpdate: "plan",
        entries: text.split("|").map((content) => ({ content, priority: "medium", status: "pending" })),
      });
      return null;
    case "usage": {
      const [used = 0, size = 0, usd = 0] = rest.map(Number);
      await tell({ sessionUpdate: "usage_update", used, size, cost: { amount: usd, currency: "USD" } });
      return null;
    }
    case "noise":
      process.stdout.write(`${text}\n`);
      return null;
    case "crash":
      process.stderr.write("scripted: crashing\n    at run (/agent.mjs:1:2)\n");
      process.exit(7);
      break;
    case "hang":
      return await turn.cancelled;
    case "deaf":
      return await new Promise(() => setInterval(() => undefined, 1_000));
    case "keep":
      writeFileSync(resolve(state.cwd, "prompt.txt"), turn.prompt);
      return null;
    case "once":
      if (state.prompts > 1) throw new RequestError(-32603, "the folder is gone");
      return null;
    case "fail":
      throw new RequestError(Number(rest[0]), rest.slice(1).join(" "));
    case "refuse":
      return "refusal";
    case "limit":
      return "max_tokens";
    case "loop":
      for (let at = 0; at < Number(text); at += 1) await call("look again", { path: "same" }, turn);
      return await turn.cancelled;
    case "varied":
    case "polls":
      for (let at = 0; at < Number(text); at += 1) await bareCall(word, at, turn);
      return null;
    case "over":
      calls += 1;
      await tell({ sessionUpdate: "tool_call", toolCallId: `call-${calls}`, title: text, status: "completed" });
      return null;
    case "flood":
      for (let at = 0; at < Number(text); at += 1)
        await tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: `update ${at}\n` } });
      return null;
    case "always":
      state.always = [...(state.always ?? []), text];
      return act(text, turn);
    case "submit":
      await submit(JSON.parse(text), turn);
      return null;
  }
  return null;
}

async function inHalves(value: string, { tell }: Turn): Promise<void> {
  const middle = Math.floor(value.length / 2);
  for (const text of [value.slice(0, middle), value.slice(middle)]) {
    await tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
    await new Promise((done) => setTimeout(done, 600));
  }
  for (const text of [value.slice(0, middle), `${value.slice(middle)}\n`]) {
    process.stderr.write(text);
    await new Promise((done) => setTimeout(done, 600));
  }
}

async function call(title: string, rawInput: object, { tell }: Turn): Promise<string> {
  calls += 1;
  const toolCallId = `call-${calls}`;
  await tell({ sessionUpdate: "tool_call", toolCallId, title, kind: "read", status: "pending", rawInput });
  const content = [{ type: "content" as const, content: { type: "text" as const, text: "nothing new" } }];
  await tell({ sessionUpdate: "tool_call_update", toolCallId, status: "completed", content });
  return toolCallId;
}

/**
 * As Claude Code and opencode report a call: its input comes later, and its result when it ends.
 */
async function bareCall(word: string, at: number, { tell }: Turn): Promise<void> {
  calls += 1;
  const toolCallId = `call-${calls}`;
  const rawInput = { command: word === "varied" ? `step ${at}` : "tail build.log" };
  await tell({
    sessionUpdate: "tool_call",
    toolCallId,
    title: "bash",
    kind: "execute",
    status: "pending",
    rawInput: {},
  });
  await tell({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress", rawInput });
  const text = word === "varied" ? "ok" : `${at} of 9 done`;
  const content = [{ type: "content" as const, content: { type: "text" as const, text } }];
  await tell({ sessionUpdate: "tool_call_update", toolCallId, status: "completed", content });
}

async function write(path: string, text: string, { sessionId, state, client, tell }: Turn): Promise<void> {
  calls += 1;
  const place = resolve(state.cwd, path);
  const toolCallId = `call-${calls}`;
  const content = [{ type: "diff" as const, path: place, oldText: null, newText: text }];
  const toolCall = { toolCallId, title: `Write ${path}`, kind: "edit" as const, content, locations: [{ path: place }] };
  await tell({ sessionUpdate: "tool_call", ...toolCall, status: "pending" });
  const asked = { sessionId, toolCall, options: [...options] };
  const { outcome } = await client.request<RequestPermissionResponse>(methods.client.session.requestPermission, asked);
  const chosen = outcome.outcome === "selected" ? outcome.optionId : "cancelled";
  if (chosen === "once") writeFileSync(place, text);
  const text2 = `chose ${chosen}`;
  await tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: `${text2}\n` } });
  await tell({ sessionUpdate: "tool_call_update", toolCallId, status: chosen === "once" ? "completed" : "failed" });
}

const run = (command: string, cwd: string): Promise<void> =>
  new Promise((done) => {
    const child = spawn("sh", ["-c", command], { cwd, stdio: "ignore" });
    child.once("exit", () => done());
  });

async function submit(result: Record<string, unknown>, { state, tell }: Turn): Promise<void> {
  const [server] = state.servers;
  if (server === undefined || !("command" in server)) throw new Error("no MCP server");
  const mcp = new Client({ name: "scripted", version: "1" });
  await mcp.connect(new StdioClientTransport({ command: server.command, args: server.args }));
  const reply = await mcp.callTool({ name: "submit_result", arguments: result });
  const said = (reply.content as { text: string }[])[0]?.text ?? "";
  await tell({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: `${said}\n` } });
  await mcp.close();
}

function remember(): void {
  writeFileSync(memory, JSON.stringify(Object.fromEntries([...sessions].map(([id, { prompts }]) => [id, prompts]))));
}

function remembered(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(memory, "utf8"));
  } catch {
    return {}; // None yet.
  }
}

agent({ name: "scripted" })
  .onRequest(methods.agent.initialize, ({ params }) => ({
    protocolVersion: params.protocolVersion,
    agentCapabilities: { loadSession: true },
    agentInfo: { name: "scripted", version: "1.0.0" },
  }))
  .onRequest(methods.agent.session.new, ({ params }) => {
    if (process.env.SCRIPTED_SIGN_IN === "1") throw new RequestError(-32000, "Authentication required");
    const sessionId = `session-${process.pid}-${sessions.size}`;
    sessions.set(sessionId, { cwd: params.cwd, servers: params.mcpServers, prompts: 0 });
    remember();
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, async ({ params, client }) => {
    const prompts = remembered()[params.sessionId];
    if (prompts === undefined) throw new RequestError(-32002, "Resource not found");
    sessions.set(params.sessionId, { cwd: params.cwd, servers: params.mcpServers, prompts });
    await client.notify(methods.client.session.update, {
      sessionId: params.sessionId,
      update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "an old word\n" } },
    });
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => cancels.get(params.sessionId)?.())
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const state = sessions.get(sessionId)!;
    state.prompts += 1;
    remember();
    const cancelled = new Promise<"cancelled">((done) => cancels.set(sessionId, () => done("cancelled")));
    const tell = (update: SessionUpdate) => client.notify(methods.client.session.update, { sessionId, update });
    const text = params.prompt.map((block) => (block.type === "text" ? block.text : "")).join("\n");
    for (const line of [...(state.always ?? []), ...text.split("\n")]) {
      const stop = await act(line.replaceAll("{prompts}", String(state.prompts)), {
        sessionId,
        state,
        prompt: text,
        client,
        cancelled,
        tell,
      });
      if (stop !== null) return { stopReason: stop };
    }
    return { stopReason: "end_turn" };
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>));
