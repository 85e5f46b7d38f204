import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

// Model providers on loopback that speak the real protocols (Anthropic messages, OpenAI chat
// completions and responses, Gemini, whole and streamed). A test sets the answers.

export interface FakeRequest {
  readonly path: string;
  /** The query, without the question mark. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: tests read single fields of the request.
  readonly body: any;
  /** From 1, over all requests. */
  readonly number: number;
}

export interface FakeAnswer {
  readonly text?: string;
  readonly tools?: readonly FakeCall[];
  readonly inputTokens?: number;
  readonly cachedTokens?: number;
  readonly outputTokens?: number;
  /** Answers with this error status. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly message?: string;
  /** Cuts the connection in the middle of the stream. */
  readonly cut?: boolean;
  /** Closes the connection without an answer. */
  readonly hangUp?: boolean;
  /** The reason that ends a Gemini stream; default STOP. */
  readonly finishReason?: string;
  /** Cuts the answer at its output limit. */
  readonly atLimit?: boolean;
  /** Sent unchanged instead of the answer. */
  readonly raw?: string;
}

export interface FakeCall {
  readonly name: string;
  /** An object, or a text for a tool that takes free text, such as Codex's `exec`. */
  readonly input: unknown;
}

/**
 * Whether the model may call tools in its answer; only such answers are steps of the agent's work.
 */
export function offersTools({ body }: Pick<FakeRequest, "body">): boolean {
  // Codex asks for a title like this.
  if (body?.text?.format !== undefined) return false;
  const added =
    Array.isArray(body?.input) && body.input.some(({ type }: { type: string }) => type === "additional_tools");
  return added || (Array.isArray(body?.tools) && body.tools.length > 0);
}

export interface FakeProviders {
  /** Takes the paths of every protocol. */
  readonly url: string;
  readonly requests: FakeRequest[];
  close(): Promise<void>;
}

/** Starts a server whose answers come from `answer`. */
export async function startFakeProviders(
  answer: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>,
): Promise<FakeProviders> {
  const requests: FakeRequest[] = [];
  let last: FakeAnswer = {};
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString("utf8");
    const [path = "", query = ""] = (incoming.url ?? "").split("?");
    if (path.startsWith("/wavesmith/")) {
      response.end(JSON.stringify({ waiting: 0, unfinished: unfinishedBy(last) }));
      return;
    }
    const number = requests.length + 1;
    const request = { path, query, headers: incoming.headers, body: text === "" ? null : JSON.parse(text), number };
    requests.push(request);
    try {
      const answered = await answer(request);
      if (offersTools(request)) last = answered;
      reply(request, answered, response);
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

/** Returns how our proxy would describe an agent's last call, given its answer. */
function unfinishedBy({ status = 200, atLimit, cut, raw }: FakeAnswer): { ending: string; reason: string } | null {
  if (status >= 400) return { ending: "error", reason: `the provider failed (it answered ${status})` };
  if (atLimit === true) return { ending: "limit", reason: "the model's last answer was cut at its output limit" };
  if (cut === true) return { ending: "broken", reason: "the model's last answer broke off" };
  return raw === undefined ? null : { ending: "unreadable", reason: "the provider's last answer cannot be read" };
}

function reply(request: FakeRequest, answer: FakeAnswer, response: ServerResponse): void {
  const { path, body } = request;
  if (answer.hangUp === true) {
    response.destroy();
    return;
  }
  if (answer.status !== undefined && answer.status >= 400) {
    response.writeHead(answer.status, { "content-type": "application/json", ...answer.headers });
    const message = answer.message ?? `fake ${answer.status}`;
    response.end(answer.raw ?? JSON.stringify({ type: "error", error: { type: "fake_error", message } }));
    return;
  }
  if (answer.raw !== undefined) {
    response.writeHead(200, { "content-type": "application/json" }).end(answer.raw);
    return;
  }
  const free = freeAnswers.find(([end]) => path.endsWith(end))?.[1];
  if (free !== undefined) {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(free));
    return;
  }
  const [, speak = chat] = languages.find(([end]) => path.endsWith(end)) ?? [];
  const { whole, events } = speak(body, answer);
  const streamed = path.endsWith(":streamGenerateContent");
  if (streamed && !request.query.includes("alt=sse")) {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(events));
    return;
  }
  if (body?.stream !== true && !streamed) {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const lines = events.map((event) => {
    const name = (event as { type?: string }).type;
    const data = typeof event === "string" ? event : JSON.stringify(event);
    return `${name === undefined || path.endsWith("/completions") ? "" : `event: ${name}\n`}data: ${data}\n\n`;
  });
  const sent = answer.cut === true ? lines.slice(0, Math.ceil(lines.length / 2)) : lines;
  for (const line of sent) response.write(line);
  if (answer.cut === true) response.socket?.end();
  else response.end();
}

/** Usage that costs nothing. */
const freeAnswers: readonly [string, object][] = [
  ["/models", { data: [{ id: "fake" }], models: [{ name: "models/fake" }] }],
  ["/count_tokens", { input_tokens: 1 }],
  [":countTokens", { totalTokens: 1 }],
];

interface Spoken {
  readonly whole: object;
  readonly events: readonly (object | string)[];
}

let made = 0;
/** Gives each thing its own name, as real providers do. */
const id = (kind: string): string => `${kind}_fake_${++made}`;

function anthropic(body: { model: string }, answer: FakeAnswer): Spoken {
  const { text, tools = [], inputTokens = 10, cachedTokens = 0, outputTokens = 5 } = answer;
  const content = [
    ...(text === undefined ? [] : [{ type: "text", text }]),
    ...tools.map(({ name, input }) => ({ type: "tool_use", id: id("toolu"), name, input })),
  ];
  const stop = answer.atLimit === true ? "max_tokens" : tools.length > 0 ? "tool_use" : "end_turn";
  const input = { input_tokens: inputTokens - cachedTokens, cache_read_input_tokens: cachedTokens };
  const message = { id: id("msg"), type: "message", role: "assistant", model: body.model, stop_sequence: null };
  const blocks = content.flatMap((block, index) => {
    const start = block.type === "text" ? { type: "text", text: "" } : { ...block, input: {} };
    const delta =
      "text" in block
        ? { type: "text_delta", text: block.text }
        : { type: "input_json_delta", partial_json: JSON.stringify("input" in block ? block.input : {}) };
    return [
      { type: "content_block_start", index, content_block: start },
      { type: "content_block_delta", index, delta },
      { type: "content_block_stop", index },
    ];
  });
  return {
    whole: { ...message, content, stop_reason: stop, usage: { ...input, output_tokens: outputTokens } },
    events: [
      {
        type: "message_start",
        message: { ...message, content: [], stop_reason: null, usage: { ...input, output_tokens: 1 } },
      },
      ...blocks,
      {
        type: "message_delta",
        delta: { stop_reason: stop, stop_sequence: null },
        usage: { output_tokens: outputTokens },
      },
      { type: "message_stop" },
    ],
  };
}

function chat(body: { model: string; stream_options?: { include_usage?: boolean } }, answer: FakeAnswer): Spoken {
  const { text = null, tools = [], inputTokens = 10, cachedTokens = 0, outputTokens = 5 } = answer;
  const calls = tools.map(({ name, input }, index) => ({
    index,
    id: id("call"),
    type: "function",
    function: { name, arguments: JSON.stringify(input) },
  }));
  const finish = answer.atLimit === true ? "length" : calls.length > 0 ? "tool_calls" : "stop";
  const usage = {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
  const base = { id: id("chatcmpl"), created: 1, model: body.model };
  const message = { role: "assistant", content: text, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
  const chunk = { ...base, object: "chat.completion.chunk" };
  return {
    whole: {
      ...base,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: finish }],
      usage,
    },
    events: [
      { ...chunk, choices: [{ index: 0, delta: message, finish_reason: null }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: finish }] },
      ...(body.stream_options?.include_usage === true ? [{ ...chunk, choices: [], usage }] : []),
      "[DONE]",
    ],
  };
}

function responses(body: { model: string }, answer: FakeAnswer): Spoken {
  const { text, tools = [], inputTokens = 10, cachedTokens = 0, outputTokens = 5 } = answer;
  const items = [
    ...(text === undefined
      ? []
      : [
          {
            type: "message",
            id: id("msg"),
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text, annotations: [] }],
          },
        ]),
    ...tools.map(({ name, input }) => ({
      ...(typeof input === "string"
        ? { type: "custom_tool_call", id: id("ctc"), input }
        : { type: "function_call", id: id("fc"), arguments: JSON.stringify(input) }),
      call_id: id("call"),
      name,
      status: "completed",
    })),
  ];
  const usage = {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + outputTokens,
  };
  const base = { id: id("resp"), object: "response", created_at: 1, model: body.model, error: null };
  const end =
    answer.atLimit === true
      ? { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }
      : { status: "completed" };
  const whole = { ...base, ...end, output: items, usage };
  return {
    whole,
    events: [
      { type: "response.created", response: { ...base, status: "in_progress", output: [], usage: null } },
      ...items.flatMap((item, output_index) => [
        { type: "response.output_item.added", output_index, item: { ...item, status: "in_progress" } },
        ...("content" in item
          ? [
              {
                type: "response.output_text.delta",
                item_id: item.id,
                output_index,
                content_index: 0,
                delta: item.content[0]?.text ?? "",
              },
            ]
          : []),
        { type: "response.output_item.done", output_index, item },
      ]),
      { type: `response.${end.status}`, response: whole },
    ],
  };
}

function gemini(_body: unknown, answer: FakeAnswer): Spoken {
  const { text, tools = [], inputTokens = 10, cachedTokens = 0, outputTokens = 5 } = answer;
  const finishReason = answer.finishReason ?? (answer.atLimit === true ? "MAX_TOKENS" : "STOP");
  const parts = [
    ...(text === undefined ? [] : [{ text }]),
    ...tools.map(({ name, input }) => ({ functionCall: { name, args: input } })),
  ];
  // Thinking is counted separately.
  const thoughts = Math.floor(outputTokens / 2);
  const usageMetadata = {
    promptTokenCount: inputTokens,
    cachedContentTokenCount: cachedTokens,
    candidatesTokenCount: outputTokens - thoughts,
    thoughtsTokenCount: thoughts,
    totalTokenCount: inputTokens + outputTokens,
  };
  const content = { role: "model", parts };
  const begun = { promptTokenCount: inputTokens, cachedContentTokenCount: cachedTokens, candidatesTokenCount: 1 };
  return {
    whole: { candidates: [{ index: 0, content, finishReason }], usageMetadata },
    events: [
      { candidates: [{ index: 0, content }], usageMetadata: begun },
      {
        candidates: [{ index: 0, content: { role: "model", parts: [{ text: "" }] }, finishReason }],
        usageMetadata,
      },
    ],
  };
}

/** Returns the protocol, by the end of the path; every other path is a chat completion. */
const languages = [
  ["/messages", anthropic],
  ["/responses", responses],
  [":generateContent", gemini],
  [":streamGenerateContent", gemini],
] as const;
