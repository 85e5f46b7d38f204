import { availableParallelism, totalmem } from "node:os";
import { delimiter, resolve } from "node:path";
import { z } from "zod";
import { WavesmithError } from "./domain/errors.ts";
import type { ProviderName } from "./domain/models.ts";
import type { AgentSpec } from "./domain/plan.ts";
import type { SandboxLimits, SandboxPolicy } from "./domain/sandbox.ts";
import { type DriverName, driverChoices, driverNames } from "./sandbox/drivers/registry.ts";

// The only reader of the process environment. Every setting is a row of the README's table and of
// .env.example.

const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const unitsBytes: Readonly<Record<string, number>> = { MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 };

/** A duration of at least a minute: `30m`, `2h`, `7d`. */
const period = z.string().regex(/^[1-9]\d{0,5}[mhd]$/, "must be a time such as 30m, 2h or 7d");
const pause = z.string().regex(/^[1-9]\d{0,4}[sm]$/, "must be a time such as 30s or 5m");
const periodOrNever = z.union([period, z.enum(["never", "0"])], {
  error: "must be a time such as 30m, 2h or 7d, or never",
});
const size = z.string().regex(/^\d{1,6}(MB|GB|TB)$/, {
  error: ({ input }) => `must be a size such as 512MB, 2GB or 1TB, not ${input}`,
  abort: true,
});

/** The guest and one program beside it need at least this much. */
const leastMemoryBytes = 128 * 1024 ** 2;

const settingsSchema = z.object({
  WAVESMITH_DATA: z.string().min(1).default(".wavesmith").describe("data directory: database, repositories, volumes"),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "must begin with postgres:// or postgresql://")
    .optional()
    .describe("a Postgres server to use instead of the embedded one, with one and the same data directory always"),
  WAVESMITH_DATABASE_WAIT: pause
    .default("60s")
    .describe("how long a database that went away is waited for; afterwards the command ends with exit 4"),
  WAVESMITH_SANDBOX: z
    .enum(driverNames, {
      error: ({ input }) => `must be ${driverChoices}, not ${input}`,
    })
    .default("local")
    .describe("`sandbox.driver`: where agents run when --sandbox says nothing"),
  WAVESMITH_SANDBOX_READ_ONLY: z
    .string()
    .default("")
    .describe("`sandbox.readOnly`: further folders that sandboxes may read, separated like PATH"),
  WAVESMITH_SANDBOX_CPUS: z
    .string()
    .regex(/^([1-9]\d{0,2}(\.\d{1,2})?|0\.[1-9]\d?|0\.0[1-9])$/, "must be a number from 0.01 to 999")
    .default("2")
    .describe("processors that a sandbox may use (docker), from its next start on, like the three below"),
  WAVESMITH_SANDBOX_MEMORY: size
    .refine((text) => bytes(text) >= leastMemoryBytes, "must be at least 128MB")
    .default("4GB")
    .describe("memory that a sandbox may use, none of it swapped (docker)"),
  WAVESMITH_SANDBOX_PROCESSES: z
    .string()
    .regex(/^([3-9]\d|[1-9]\d{2,5})$/, "must be a number from 30 to 999999")
    .default("512")
    .describe("processes and threads that a sandbox may have at once (docker)"),
  WAVESMITH_SANDBOX_DISK: size
    .refine((text) => bytes(text) > 0, "must be at least 1MB")
    .default("20GB")
    .describe("what a volume may take; where the disk cannot keep it to that, no further job is started above it"),
  WAVESMITH_SANDBOX_IDLE: periodOrNever
    .default("2h")
    .describe("a sandbox in which nothing has been at work for so long is stopped, its volume kept; or `never`"),
  WAVESMITH_SANDBOX_IDLE_SNAPSHOT: z
    .enum(["0", "1"])
    .default("0")
    .describe("`1`: a snapshot is taken before a sandbox is stopped for being idle"),
  WAVESMITH_SANDBOX_TTL: periodOrNever
    .default("never")
    .describe("a sandbox older than this is removed once it is idle, its volume kept; or `never`"),
  WAVESMITH_PREVIEW_TTL: periodOrNever
    .default("1h")
    .describe("a preview without a request for this long ends, and the next request starts it again; or `never`"),
  WAVESMITH_SANDBOX_MAX: z
    .string()
    .regex(/^([1-9]\d{0,3}|none)$/, "must be a number from 1 to 9999, or none")
    .default("16")
    .describe("how many sandboxes of a tenant run at once, further builds waiting; or `none`"),
  WAVESMITH_SANDBOX_OVERCOMMIT: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, "must be a number from 1 to 999")
    .default("8")
    .describe("how many processors sandboxes at work may be promised for each one there is"),
  WAVESMITH_SANDBOX_RESERVE_MEMORY: size
    .default("256MB")
    .describe("memory of the machine that no further sandbox is started into"),
  WAVESMITH_SANDBOX_RESERVE_DISK: size
    .default("512MB")
    .describe("room on the disk of the data directory that no further sandbox is started into"),
  WAVESMITH_SNAPSHOT_KEEP: period.default("30d").describe("how long a snapshot is kept"),
  WAVESMITH_ENGINE: z
    .enum(["embedded", "inngest"])
    .optional()
    .describe(
      "what runs the functions when --engine says nothing; without it `inngest` when INNGEST_DEV or both keys are set, else `embedded`",
    ),
  INNGEST_DEV: z
    .string()
    .regex(/^(1|0|true|false|https?:\/\/.+)$/i, "must be 1, 0 or the dev server's URL")
    .optional()
    .describe("`1` or a URL: work with an Inngest dev server (http://127.0.0.1:8288), which signs nothing; `0`: never"),
  INNGEST_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the Inngest server when it is neither the cloud nor a dev server at its usual place"),
  INNGEST_EVENT_KEY: z
    .string()
    .optional()
    .describe(
      "sends events to Inngest; also the key that `POST /e/:key` of `serve` asks for, which otherwise makes its own",
    ),
  INNGEST_SIGNING_KEY: z
    .string()
    .optional()
    .describe("proves that calls of `/api/inngest` come from Inngest; needed for the cloud and a self-hosted server"),
  INNGEST_SIGNING_KEY_FALLBACK: z
    .string()
    .optional()
    .describe("the signing key before or after, while keys are rotated"),
  INNGEST_ENV: z.string().optional().describe("the branch environment in Inngest's cloud"),
  INNGEST_SERVE_ORIGIN: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the URL at which others reach `serve`, when that is not the address it listens on"),
  WAVESMITH_EVENT_SECRETS: z
    .string()
    .regex(/^\s*[A-Za-z_]\w*(\s*,\s*[A-Za-z_]\w*)*\s*$/, "must be names, separated by commas")
    .optional()
    .describe("names of secrets that plans sent by events may use, separated by commas; without it they may use none"),
  ANTHROPIC_API_KEY: z
    .string()
    .optional()
    .describe("a key for models of Anthropic; like every key it stays here, and agents call our proxy"),
  CLAUDE_CODE_OAUTH_TOKEN: z
    .string()
    .optional()
    .describe(
      "a subscription's token (`claude setup-token`) instead of a key; what its calls cost is unknown, so limit tokens or time",
    ),
  ANTHROPIC_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("another place that speaks Anthropic's messages"),
  OPENAI_API_KEY: z.string().optional().describe("a key for models of OpenAI"),
  OPENAI_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("another place that speaks OpenAI's responses and chat completions"),
  GEMINI_API_KEY: z.string().optional().describe("a key for models of Google (Gemini)"),
  GEMINI_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("another place that speaks Gemini's `generateContent`"),
  WAVESMITH_COMPATIBLE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe(
      "the models of `compatible:NAME`: any place that speaks chat completions, such as http://127.0.0.1:11434/v1 (Ollama, vLLM, llama.cpp)",
    ),
  WAVESMITH_COMPATIBLE_KEY: z
    .string()
    .optional()
    .describe("the key for `WAVESMITH_COMPATIBLE_URL`, where it asks for one"),
  WAVESMITH_MODEL: z
    .string()
    .regex(/^[a-z]+:./, "must be provider:model, such as anthropic:claude-sonnet-5")
    .optional()
    .describe("the model of every agent of `build --brief`, such as `anthropic:claude-sonnet-5`"),
  WAVESMITH_AGENT: z
    .string()
    .min(1)
    .optional()
    .describe("the command of an ACP agent that does the work of `build --brief` instead of the built-in one"),
  WAVESMITH_PRICES: z
    .string()
    .optional()
    .describe(
      "a JSON file of what models cost, before what we know: a list of `{ provider, model, input, output }` with `cached`, `cacheWrite`, `cacheWriteLong`, `long` and `batch` where they differ, in USD per million tokens",
    ),
  WAVESMITH_PRICES_URL: z
    .string()
    .regex(/^https?:\/\/\S+$/, "must be a URL")
    .default("https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json")
    .describe("where `prices update` fetches what models cost: a list in the form of LiteLLM's"),
  WAVESMITH_CASSETTE: z
    .string()
    .regex(/^(record|replay):.+/, "must be record:FOLDER or replay:FOLDER")
    .optional()
    .describe("`record:FOLDER` keeps every answer of a model there, `replay:FOLDER` builds again with those alone"),
});
export type SettingName = keyof typeof settingsSchema.shape;

/** An Inngest server, and the keys that we and it use. */
export interface InngestSettings {
  readonly kind: "inngest";
  /** A dev server: nothing is signed, so only this machine may reach the functions. */
  readonly isDev: boolean;
  /** Null for Inngest's cloud. */
  readonly baseUrl: string | null;
  readonly eventKey: string;
  /** Null only with a dev server. */
  readonly signingKey: string | null;
  readonly signingKeyFallback: string | null;
  readonly environment: string | null;
  /** Where Inngest reaches us; null for the address we listen on. */
  readonly serveOrigin: string | null;
}

type EngineSettings =
  | {
      readonly kind: "embedded" /** Where others reach us; null: the address we listen on. */;
      readonly serveOrigin: string | null;
    }
  | InngestSettings;

/** A provider of models, and how to sign in there. */
interface ModelProviderSettings {
  readonly name: ProviderName;
  /** Paths such as `/v1/messages` are appended. */
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A subscription: what a call costs is unknown, whatever the model's price is elsewhere. */
  readonly isSubscription?: boolean;
}

interface ModelSettings {
  readonly providers: readonly ModelProviderSettings[];
  readonly pricesFile: string | null;
  readonly pricesUrl: string;
  readonly cassette: { readonly mode: "record" | "replay"; readonly folder: string } | null;
}

export interface Config {
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly databaseWaitMs: number;
  readonly sandboxDriver: DriverName;
  readonly sandboxReadOnly: readonly string[];
  readonly sandboxPolicy: SandboxPolicy;
  readonly engine: EngineSettings;
  /** The key that `POST /e/:key` requires; null for the data directory's own key. */
  readonly serveKey: string | null;
  /** Names of secrets that plans sent by events may use. */
  readonly eventSecrets: readonly string[];
  readonly models: ModelSettings;
  /** The agent of builds from a brief; null if no setting names one. */
  readonly briefAgent: AgentSpec | null;
  readonly processors: number;
  readonly memoryBytes: number;
  /** Our own keys and tokens by setting name; they must appear in no output. */
  readonly credentials: Readonly<Record<string, string>>;
  /** The source of PATH and of secrets' values. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The settings as the README and .env.example list them. */
export const settings: readonly { name: SettingName; default: string; describes: string }[] = Object.entries(
  settingsSchema.shape,
).map(([name, schema]) => {
  const parsed = schema.safeParse(undefined);
  return {
    name: name as SettingName,
    default: parsed.success ? (parsed.data ?? "") : "",
    describes: schema.description ?? "",
  };
});

/** Reads the settings and reports all problems together. Empty variables count as absent. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const parsed = settingsSchema.safeParse(present);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new WavesmithError("usage", `settings are wrong: ${problems.join("; ")}`, {
      remedy: "fix these environment variables; the README lists every setting",
    });
  }
  const { data } = parsed;
  return {
    dataDir: resolve(data.WAVESMITH_DATA),
    databaseUrl: data.DATABASE_URL ?? null,
    databaseWaitMs: milliseconds(data.WAVESMITH_DATABASE_WAIT)!,
    sandboxDriver: data.WAVESMITH_SANDBOX,
    sandboxReadOnly: data.WAVESMITH_SANDBOX_READ_ONLY.split(delimiter).filter((path) => path !== ""),
    sandboxPolicy: sandboxPolicy(data),
    engine: engineSettings(data),
    serveKey: data.INNGEST_EVENT_KEY ?? null,
    eventSecrets: (data.WAVESMITH_EVENT_SECRETS ?? "").split(",").flatMap((name) => name.trim() || []),
    models: modelSettings(data),
    briefAgent: briefAgent(data),
    processors: availableParallelism(),
    memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
    credentials: credentials(data),
    environment: env,
  };
}

/**
 * Shorter keys, such as `ollama`, are placeholders for servers that need none; masking them would
 * blank out ordinary text.
 */
const shortestCredential = 12;

function credentials(data: z.infer<typeof settingsSchema>): Record<string, string> {
  const named = Object.entries(data).filter(([name]) => /_(KEY|KEY_FALLBACK|TOKEN)$|^DATABASE_URL$/.test(name));
  return Object.fromEntries(
    named.filter((entry): entry is [string, string] => String(entry[1] ?? "").length >= shortestCredential),
  );
}

function sandboxPolicy(data: z.infer<typeof settingsSchema>): SandboxPolicy {
  const { WAVESMITH_SANDBOX_MAX: most } = data;
  return {
    limits: sandboxLimits(data),
    idleMs: milliseconds(data.WAVESMITH_SANDBOX_IDLE),
    ttlMs: milliseconds(data.WAVESMITH_SANDBOX_TTL),
    snapshotWhenIdle: data.WAVESMITH_SANDBOX_IDLE_SNAPSHOT === "1",
    previewTtlMs: milliseconds(data.WAVESMITH_PREVIEW_TTL),
    snapshotKeepMs: milliseconds(data.WAVESMITH_SNAPSHOT_KEEP)!,
    maxRunningPerTenant: most === "none" ? null : Number(most),
    cpuOvercommit: Number(data.WAVESMITH_SANDBOX_OVERCOMMIT),
    reserveMemoryBytes: bytes(data.WAVESMITH_SANDBOX_RESERVE_MEMORY),
    reserveDiskBytes: bytes(data.WAVESMITH_SANDBOX_RESERVE_DISK),
  };
}

const sandboxLimits = (data: z.infer<typeof settingsSchema>): SandboxLimits => ({
  cpus: Number(data.WAVESMITH_SANDBOX_CPUS),
  memoryBytes: bytes(data.WAVESMITH_SANDBOX_MEMORY),
  processes: Number(data.WAVESMITH_SANDBOX_PROCESSES),
  diskBytes: bytes(data.WAVESMITH_SANDBOX_DISK),
});

/** Null for never. */
const milliseconds = (text: string): number | null =>
  text === "never" || text === "0" ? null : Number(text.slice(0, -1)) * unitsMs[text.slice(-1)]!;
const bytes = (text: string): number => Number(text.slice(0, -2)) * unitsBytes[text.slice(-2)]!;

const withoutSlash = (url: string): string => url.replace(/\/+$/, "");
/** Drops a trailing `/v1`, because the paths begin with it. */
const withoutVersion = (url: string): string => withoutSlash(url).replace(/\/v1$/, "");

function modelSettings(data: z.infer<typeof settingsSchema>): ModelSettings {
  const [, mode, folder] = /^(record|replay):(.+)$/.exec(data.WAVESMITH_CASSETTE ?? "") ?? [];
  return {
    providers: [
      ...anthropicProvider(data),
      ...openaiProvider(data),
      ...googleProvider(data),
      ...compatibleProvider(data),
    ],
    pricesUrl: data.WAVESMITH_PRICES_URL,
    pricesFile: data.WAVESMITH_PRICES === undefined ? null : resolve(data.WAVESMITH_PRICES),
    cassette: mode === undefined ? null : { mode: mode as "record" | "replay", folder: resolve(folder!) },
  };
}

type Data = z.infer<typeof settingsSchema>;

function briefAgent({ WAVESMITH_AGENT: command, WAVESMITH_MODEL: model }: Data): AgentSpec | null {
  if (command !== undefined) return { runtime: "acp", command, model: model ?? null, prompt: null };
  return model === undefined ? null : { runtime: "builtin", command: null, model, prompt: null };
}

function anthropicProvider(data: Data): ModelProviderSettings[] {
  const { ANTHROPIC_API_KEY: key, CLAUDE_CODE_OAUTH_TOKEN: token } = data;
  if (key === undefined && token === undefined) return [];
  const baseUrl = withoutVersion(data.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com");
  // A subscription signs in with a token in another header.
  const signIn =
    key === undefined
      ? { authorization: `Bearer ${token}`, "anthropic-beta": "oauth-2025-04-20" }
      : { "x-api-key": key };
  return [
    {
      name: "anthropic",
      baseUrl,
      headers: { "anthropic-version": "2023-06-01", ...signIn } as Record<string, string>,
      isSubscription: key === undefined,
    },
  ];
}

function openaiProvider(data: Data): ModelProviderSettings[] {
  const { OPENAI_API_KEY: key } = data;
  if (key === undefined) return [];
  const baseUrl = withoutVersion(data.OPENAI_BASE_URL ?? "https://api.openai.com");
  return [{ name: "openai", baseUrl, headers: { authorization: `Bearer ${key}` } }];
}

function googleProvider(data: Data): ModelProviderSettings[] {
  const { GEMINI_API_KEY: key } = data;
  if (key === undefined) return [];
  const address = withoutSlash(data.GEMINI_BASE_URL ?? "https://generativelanguage.googleapis.com");
  return [{ name: "google", baseUrl: address.replace(/\/v1(beta)?$/, ""), headers: { "x-goog-api-key": key } }];
}

function compatibleProvider(data: Data): ModelProviderSettings[] {
  const { WAVESMITH_COMPATIBLE_URL: url, WAVESMITH_COMPATIBLE_KEY: key } = data;
  if (url === undefined) return [];
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  return [{ name: "compatible", baseUrl: withoutVersion(url), headers }];
}

const devServerUrl = "http://127.0.0.1:8288";

/**
 * Chooses the engine, with everything an Inngest server needs. Never accepts a server without keys
 * unless it is a dev server.
 */
function engineSettings(data: z.infer<typeof settingsSchema>): EngineSettings {
  const { INNGEST_DEV: dev, INNGEST_SIGNING_KEY: signingKey, INNGEST_EVENT_KEY: eventKey } = data;
  const devOff = dev !== undefined && /^(0|false)$/i.test(dev);
  const hasKeys = signingKey !== undefined && eventKey !== undefined;
  const kind = data.WAVESMITH_ENGINE ?? ((dev !== undefined && !devOff) || hasKeys ? "inngest" : "embedded");
  const serveOrigin = data.INNGEST_SERVE_ORIGIN?.replace(/\/+$/, "") ?? null;
  if (kind === "embedded") return { kind, serveOrigin };
  const common = {
    kind,
    signingKeyFallback: data.INNGEST_SIGNING_KEY_FALLBACK ?? null,
    environment: data.INNGEST_ENV ?? null,
    serveOrigin,
  };
  const keyless = signingKey === undefined && eventKey === undefined && data.INNGEST_BASE_URL === undefined;
  if (!devOff && (dev !== undefined || keyless)) {
    const url = dev !== undefined && /^https?:/i.test(dev) ? dev : (data.INNGEST_BASE_URL ?? devServerUrl);
    return { ...common, isDev: true, baseUrl: url, eventKey: eventKey ?? "dev", signingKey: signingKey ?? null };
  }
  if (!hasKeys) {
    const lacking = [
      ...(signingKey === undefined ? ["INNGEST_SIGNING_KEY"] : []),
      ...(eventKey === undefined ? ["INNGEST_EVENT_KEY"] : []),
    ];
    throw new WavesmithError("usage", `an Inngest server that is not a dev server needs ${lacking.join(" and ")}`, {
      remedy: "set both keys, or INNGEST_DEV=1 for a dev server on this machine",
    });
  }
  return { ...common, isDev: false, baseUrl: data.INNGEST_BASE_URL ?? null, eventKey, signingKey };
}
