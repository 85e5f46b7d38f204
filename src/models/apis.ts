// The calls that pass, and where each says its model and how much it may answer.

export interface Api {
  readonly provider: "anthropic" | "openai" | "compatible";
  readonly method: "GET" | "POST";
  /** Below the provider's prefix. */
  readonly path: string;
  /** Null: costs nothing. */
  readonly outputLimit: readonly string[] | null;
  /** Whether a stream says what it took only when asked. */
  readonly asksForUsage: boolean;
}

const anthropic = { provider: "anthropic", asksForUsage: false } as const;
const chat = { method: "POST", path: "/v1/chat/completions", asksForUsage: true } as const;
const chatLimits = ["max_completion_tokens", "max_tokens"];
const models = { method: "GET", path: "/v1/models", outputLimit: null, asksForUsage: false } as const;

const apis: readonly Api[] = [
  { ...anthropic, method: "POST", path: "/v1/messages", outputLimit: ["max_tokens"] },
  { ...anthropic, method: "POST", path: "/v1/messages/count_tokens", outputLimit: null },
  { ...models, provider: "anthropic" },
  { ...models, provider: "openai" },
  { ...models, provider: "compatible" },
  { ...chat, provider: "openai", outputLimit: chatLimits },
  { ...chat, provider: "compatible", outputLimit: chatLimits },
  {
    provider: "openai",
    method: "POST",
    path: "/v1/responses",
    outputLimit: ["max_output_tokens"],
    asksForUsage: false,
  },
];

/** The call that a request is; null when it is none that passes. */
export function findApi(method: string, path: string): Api | null {
  return apis.find((api) => api.method === method && path === `/${api.provider}${api.path}`) ?? null;
}

/** What an agent that sets no limit may get in one answer. */
const usualOutputTokens = 32_000;

/** The most this call may answer with, in tokens. */
export function outputLimitOf(api: Api, body: Readonly<Record<string, unknown>>): number {
  for (const name of api.outputLimit ?? []) {
    const value = body[name];
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return Math.ceil(value);
  }
  return usualOutputTokens;
}

/** The body that is sent: held to the tokens granted, and made to tell what it took. */
export function heldBody(api: Api, body: Readonly<Record<string, unknown>>, outputTokens: number) {
  const [first = "max_tokens"] = api.outputLimit ?? [];
  const name = api.outputLimit?.find((candidate) => typeof body[candidate] === "number") ?? first;
  const held = { ...body, [name]: outputTokens };
  if (!api.asksForUsage || body.stream !== true) return held;
  const options = typeof body.stream_options === "object" ? body.stream_options : {};
  return { ...held, stream_options: { ...options, include_usage: true } };
}

/**
 * The most tokens a request can be: a token is hardly ever less than two bytes of JSON. Pictures and files, which count
 * far less than their bytes, are taken at their usual price.
 */
export function inputTokensOf(body: unknown): number {
  let attachments = 0;
  const text = JSON.stringify(body, (_key, value: unknown) => {
    if (typeof value !== "string" || value.length < 4_096 || !/^(data:[^,]+,)?[A-Za-z0-9+/=\s]+$/.test(value))
      return value;
    attachments += 1;
    return "";
  });
  return Math.ceil(Buffer.byteLength(text) / 2) + attachments * 10_000;
}
