// The tool calls of the Agent Client Protocol (v1) as our events, the same for every agent.

import { isAbsolute, relative } from "node:path";
import type { ToolCallContent, ToolCallUpdate } from "@agentclientprotocol/sdk";
import type { Events } from "./events.ts";
import { createLoopWatch } from "./loops.ts";
import type { AgentEventBody, AgentHostRequest } from "./protocol.ts";
import { describeInput, inOneLine, isTellingInput, todosOf } from "./tool-input.ts";

type Diff = Extract<AgentEventBody, { readonly kind: "diff" }>;

interface ToolCall {
  title: string;
  /** The latest input: many agents start a call before they know it. */
  input: unknown;
  result: unknown;
  action: string;
  status: string;
  paths: string[];
  /** Its changes by their paths. */
  diffs: ReadonlyMap<string, Diff>;
}

const maxInputLength = 500;

/** The tool calls of one session. */
export interface ToolCalls {
  /** Updates the known state of a call, and reports any change. */
  take(call: ToolCallUpdate): void;
  /** Updates what is known of a call, and returns it. */
  record(call: ToolCallUpdate): ToolCall;
}

export interface ToolCallsParts {
  readonly events: Events;
  /** Called when the agent repeats the same action. */
  readonly onLoop: (description: string) => void;
  readonly request: Pick<AgentHostRequest, "cwd">;
}

export function createToolCalls({ events, onLoop, request: { cwd } }: ToolCallsParts): ToolCalls {
  const calls = new Map<string, ToolCall>();
  const begun = new Set<string>();
  const ended = new Set<string>();
  const findLoop = createLoopWatch();
  const record = (call: ToolCallUpdate): ToolCall => {
    const before = calls.get(call.toolCallId);
    const paths = pathsOf(call);
    const now: ToolCall = {
      title: call.title ?? before?.title ?? call.name ?? "a tool",
      input: call.rawInput ?? before?.input,
      result: resultOf(call, before?.result),
      action: call.kind ?? before?.action ?? "other",
      status: hasFailed(call) ? "failed" : (call.status ?? before?.status ?? "pending"),
      paths: paths.length > 0 ? paths : (before?.paths ?? []),
      // opencode shows a change only when it asks for permission.
      diffs: new Map([...(before?.diffs ?? []), ...diffsOf(cwd, call.content ?? [])]),
    };
    calls.set(call.toolCallId, now);
    return now;
  };
  /** The input, when it says more than the title. */
  const shown = ({ title, input }: ToolCall): string => {
    const text = describeInput(input);
    return inOneLine(title).includes(text) ? "" : events.shorten(text, maxInputLength);
  };
  const report = (id: string, call: ToolCall, status = call.status): void => {
    const { action } = call;
    const title = call.title.replaceAll(`${cwd}/`, "");
    const paths = call.paths.map((path) => shortPath(cwd, path));
    const input = shown(call);
    events.report({ kind: "tool", id, title, action, status, paths, ...(input === "" ? {} : { input }) });
  };
  const reportEnd = (id: string, call: ToolCall, todos: ReturnType<typeof todosOf>): void => {
    if (ended.has(id)) return;
    ended.add(id);
    if (todos !== null) events.report({ kind: "plan", entries: todos });
    else report(id, call);
    if (call.status === "failed") return;
    for (const diff of call.diffs.values()) events.report(diff);
  };
  const take = (call: ToolCallUpdate): void => {
    const id = call.toolCallId;
    const now = record(call);
    const isOver = now.status === "completed" || now.status === "failed";
    // Many agents begin a call before they know its input, and some report the input only when the
    // call has ended.
    const todos = todosOf(now.input);
    if (todos === null && !begun.has(id) && (now.status !== "pending" || isTellingInput(now.input))) {
      begun.add(id);
      report(id, now, "pending");
    }
    if (!isOver) return;
    reportEnd(id, now, todos);
    const title = [now.title, shown(now)].filter((text) => text !== "").join(": ");
    const loop = findLoop({ id, title, input: now.input, result: now.result });
    if (loop !== null) onLoop(loop);
  };
  return { take, record };
}

/**
 * Returns the latest result of a call; undefined if there is none yet. Codex reports the output of
 * commands piece by piece beside the protocol.
 */
function resultOf({ rawOutput, content, status, _meta }: ToolCallUpdate, before: unknown): unknown {
  const { terminal_output_delta: delta } = (_meta ?? {}) as { terminal_output_delta?: { data?: unknown } };
  if (typeof delta?.data === "string") return `${typeof before === "string" ? before : ""}${delta.data}`;
  if (rawOutput !== undefined && rawOutput !== null) return rawOutput;
  // Until a call ends, its content describes it.
  const isOver = status === "completed" || status === "failed";
  const isShown = content?.some(({ type }) => type !== "terminal") === true;
  return isOver && isShown ? content : before;
}

/** Whether a command failed, even if its agent reports only the exit code. */
function hasFailed({ rawOutput, status }: ToolCallUpdate): boolean {
  const { metadata } = (rawOutput ?? {}) as { metadata?: { exit?: unknown } };
  return status === "completed" && typeof metadata?.exit === "number" && metadata.exit !== 0;
}

/** The path from the tree, for a path in it. */
function shortPath(tree: string, path: string): string {
  const way = isAbsolute(path) ? relative(tree, path) : path.replace(/^\.\//, "");
  return way === "" || way.startsWith("..") ? path : way;
}

/** Lists every path of a call: its locations, its diffs, and the usual fields of its input. */
export function pathsOf({ locations, content, rawInput }: ToolCallUpdate): string[] {
  const input = typeof rawInput === "object" && rawInput !== null ? (rawInput as Record<string, unknown>) : {};
  const named = ["path", "file_path", "filePath", "abs_path", "notebook_path"].map((key) => input[key]);
  const diffs = (content ?? []).flatMap((part) => (part.type === "diff" ? [part.path] : []));
  const all = [...(locations ?? []).map(({ path }) => path), ...diffs, ...named];
  return [...new Set(all.filter((path): path is string => typeof path === "string" && path !== ""))];
}

const linesOf = (text: string): Set<string> => new Set(text === "" ? [] : text.replace(/\n$/, "").split("\n"));

function* diffsOf(tree: string, content: readonly ToolCallContent[]): Generator<[string, Diff]> {
  for (const part of content) {
    if (part.type !== "diff") continue;
    const before = linesOf(part.oldText ?? "");
    const after = linesOf(part.newText);
    const added = [...after].filter((line) => !before.has(line)).length;
    const removed = [...before].filter((line) => !after.has(line)).length;
    const path = shortPath(tree, part.path);
    yield [path, { kind: "diff", path, added, removed }];
  }
}
