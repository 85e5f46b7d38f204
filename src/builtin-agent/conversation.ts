// One turn of the built-in agent: steps of a model until it has no more to do.
//
// BT1. Each step is saved when it is complete, so that a later attempt can continue from there.
// BT2. An answer that is cut, unreadable or without an end is never taken for the end of the work.
// BT3. The model reads what a person says before its next step, and before its turn ends.
import { APICallError, type ModelMessage, stepCountIs, streamText, type TextStreamPart, type Tool } from "ai";
import { saysOverflow } from "../domain/overflow.ts";
import type { MessageQueue } from "./message-queue.ts";
import type { ChosenModel } from "./models.ts";
import { withCacheMarks } from "./models.ts";
import { systemPrompt } from "./prompt.ts";
import { isFull, pruned, summaryRequest, transcriptOf } from "./window.ts";

export type TurnEnd = "end_turn" | "max_tokens" | "refusal" | "max_turn_requests" | "cancelled";

export interface Conversation {
  messages: readonly ModelMessage[];
}

interface TurnParts {
  readonly conversation: Conversation;
  readonly chosen: ChosenModel;
  readonly tools: Record<string, Tool>;
  readonly signal: AbortSignal;
  readonly queue: MessageQueue;
  /** Called when the conversation changed. */
  readonly save: () => void;
  readonly say: (kind: "message" | "thought", text: string) => Promise<void>;
  readonly reportUsage: (tokens: number | undefined) => Promise<void>;
}

const maxTurnSteps = 300;
/**
 * How many times per turn a broken connection or a malformed call is retried; the model proxy may
 * be killed and come back.
 */
const maxCuts = 5;
/** How many times per turn the conversation is replaced by a summary because it overflowed. */
const maxOverflows = 2;

/** The conversation overflowed the model's window, and a summary did not help. */
export class Overflow extends Error {}

/** Continues the conversation until the model has no more to do. */
export async function takeTurn(parts: TurnParts): Promise<TurnEnd> {
  const { signal, say, queue } = parts;
  for (let cuts = 0, overflows = 0; ; ) {
    try {
      const end = await converse(parts);
      if (end === "end_turn" && queue.isWaiting()) continue;
      if (end !== "more") return end;
      await makeRoom(parts);
    } catch (error) {
      if (signal.aborted) throw error;
      if (isOverflow(error)) {
        overflows += 1;
        if (overflows > maxOverflows) throw new Overflow(errorText(error));
        await compact(parts);
        continue;
      }
      const isMalformed = error instanceof MalformedAnswer;
      if (cuts === maxCuts || !(isMalformed || wasCut(error))) throw error;
      cuts += 1;
      const reason = isMalformed ? error.message : "the connection to the model broke off";
      await say("thought", `${reason}: retrying the step\n`);
    }
  }
}

/** Takes steps until the model is done, the conversation is full or a person says something. */
async function converse(parts: TurnParts): Promise<TurnEnd | "more"> {
  const { conversation, chosen, tools, signal, queue, save } = parts;
  readMessages(parts);
  const before = pruned(conversation.messages, chosen.windowTokens);
  conversation.messages = before;
  let steps = 0;
  const result = streamText({
    model: chosen.model,
    tools,
    messages: [...before],
    abortSignal: signal,
    maxRetries: 2,
    providerOptions: chosen.options,
    ...(chosen.outputTokens === null ? {} : { maxOutputTokens: chosen.outputTokens }),
    stopWhen: [
      stepCountIs(maxTurnSteps),
      () => isFull(conversation.messages, chosen.windowTokens),
      () => queue.isWaiting(),
    ],
    prepareStep: ({ messages }) => ({ messages: withCacheMarks(systemPrompt, messages) }),
    onStepFinish: ({ response, finishReason }) => {
      steps += 1;
      // There is nothing in it to continue from.
      if (finishReason === "error" || finishReason === "other") return;
      conversation.messages = [...before, ...response.messages];
      save();
    },
    onError: () => undefined, // The stream reports it as well.
  });
  const reason = await relay(parts, result.fullStream);
  if (reason === "tool-calls" && steps < maxTurnSteps) return "more";
  const end = ends[reason];
  if (end === undefined) throw new MalformedAnswer("the model's answer cannot be read");
  return end;
}

function readMessages({ conversation, queue, save }: TurnParts): void {
  const texts = queue.take();
  if (texts.length === 0) return;
  conversation.messages = [...conversation.messages, { role: "user", content: texts.join("\n\n") }];
  save();
}

/** Shows what the model says; returns why it stopped. */
async function relay(
  { say, reportUsage }: TurnParts,
  stream: AsyncIterable<TextStreamPart<Record<string, Tool>>>,
): Promise<string> {
  let reason = "other";
  for await (const part of stream) {
    if (part.type === "text-delta" && part.text !== "") await say("message", part.text);
    if (part.type === "reasoning-delta" && part.text !== "") await say("thought", part.text);
    if (part.type === "text-end") await say("message", "\n");
    if (part.type === "finish-step") await reportUsage(part.usage.totalTokens);
    if (part.type === "finish") reason = part.finishReason;
    if (part.type === "abort") return "abort";
    if (part.type === "error") throw part.error;
  }
  return reason;
}

/** `other` is the reason of an answer without an end, and of one that is not readable. */
const ends: Readonly<Record<string, TurnEnd>> = {
  stop: "end_turn",
  length: "max_tokens",
  "content-filter": "refusal",
  // The model wanted to continue but had no steps left.
  "tool-calls": "max_turn_requests",
  abort: "cancelled",
};

/** Leaves old results out of a full conversation, or replaces it if that is not enough. */
async function makeRoom(parts: TurnParts): Promise<void> {
  const { conversation, chosen, save } = parts;
  conversation.messages = pruned(conversation.messages, chosen.windowTokens);
  if (isFull(conversation.messages, chosen.windowTokens)) await compact(parts);
  else save();
}

/** Replaces the conversation by its task and the model's summary of what was done. */
async function compact({ conversation, chosen, signal, save, say }: TurnParts): Promise<void> {
  const { messages } = conversation;
  await say("thought", "the conversation is too long: continuing from a summary\n");
  const transcript = transcriptOf(messages, chosen.windowTokens);
  const summary = streamText({
    model: chosen.model,
    prompt: `${summaryRequest}\n\n<conversation>\n${transcript}\n</conversation>`,
    abortSignal: signal,
    providerOptions: chosen.options,
    ...(chosen.outputTokens === null ? {} : { maxOutputTokens: chosen.outputTokens }),
    onError: () => undefined, // Awaiting the text rejects.
  });
  const text = await summary.text;
  conversation.messages = [
    firstOf(messages),
    { role: "assistant", content: `Summary of my work so far:\n\n${text}` },
    {
      role: "user",
      content: "Continue the task from there. Your tree is as your summary says; look again where you are not sure.",
    },
  ];
  save();
}

/** The task, as the user first put it. */
function firstOf(messages: readonly ModelMessage[]): ModelMessage {
  const first = messages.find(({ role }) => role === "user");
  return first ?? { role: "user", content: "Go on." };
}

/** Thrown for an answer that cannot be read, such as Gemini's MALFORMED_FUNCTION_CALL. */
class MalformedAnswer extends Error {}

interface Fault {
  readonly lastError?: unknown;
  readonly cause?: unknown;
  readonly code?: string;
  readonly message?: string;
}

/** Whether the connection broke off, as opposed to an error answer. */
function wasCut(error: unknown): boolean {
  const { lastError, cause, code, message } = error as Fault;
  if (/^(UND_ERR_|ECONN|EPIPE)/.test(code ?? "") || /^(terminated|fetch failed)$/.test(message ?? "")) return true;
  const inner = lastError ?? cause;
  return inner instanceof Error && wasCut(inner);
}

function isOverflow(error: unknown): boolean {
  const last = (error as Fault).lastError ?? error;
  if (!APICallError.isInstance(last)) return false;
  return (last.statusCode === 400 || last.statusCode === 413) && saysOverflow(errorText(last));
}

/** Describes the failure of a model in words; after several tries, the last error counts. */
export function errorText(error: unknown): string {
  const last = (error as Fault).lastError ?? error;
  const { statusCode, responseBody } = last as { statusCode?: number; responseBody?: string };
  const message = last instanceof Error ? last.message : String(last);
  const more = responseBody === undefined || responseBody.includes(message) ? "" : ` ${responseBody}`;
  return `the model failed${statusCode === undefined ? "" : ` (${statusCode})`}: ${message}${more}`;
}
