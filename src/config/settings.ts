import { z } from "zod";
import { driverChoices, driverNames } from "../sandbox/drivers/registry.ts";
import { rolesText } from "./brief-agents.ts";
import { githubSettings } from "./github-settings.ts";
import { openIdSettings } from "./open-id-settings.ts";
import { sizeBytesOf } from "./units.ts";

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

const countOrNone = z
  .string()
  .regex(/^([1-9]\d{0,3}|none)$/, "must be a number from 1 to 9999, or none")
  .default("none");

/** The guest and one program beside it need at least this much. */
const leastMemoryBytes = 128 * 1024 ** 2;

export const settingsSchema = z.object({
  WAVESMITH_DATA: z.string().min(1).default(".wavesmith").describe("data directory: database, repositories, volumes"),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "must begin with postgres:// or postgresql://")
    .optional()
    .describe("a Postgres server to use instead of the embedded one; always use it with the same data directory"),
  WAVESMITH_DATABASE_WAIT: pause
    .default("60s")
    .describe("how long to wait for a database that is gone, before the command ends with exit 4"),
  WAVESMITH_SERVER: z
    .string()
    .optional()
    .describe("the URL of a server that commands work on instead of a data directory, unless --data is given"),
  WAVESMITH_KEY: z
    .string()
    .optional()
    .describe("a key of that server (`wsk_…`); by default the data directory's `serve-key`, if the server is its own"),
  WAVESMITH_SANDBOX: z
    .enum(driverNames, {
      error: ({ input }) => `must be ${driverChoices}, not ${input}`,
    })
    .default("local")
    .describe("`sandbox.driver`: where agents run, unless --sandbox says otherwise"),
  WAVESMITH_SANDBOX_READ_ONLY: z
    .string()
    .default("")
    .describe("`sandbox.readOnly`: additional folders that sandboxes may read, separated as in PATH"),
  WAVESMITH_DOCKER_RUNTIME: z
    .string()
    .regex(/^[A-Za-z0-9][\w.-]*$/, "must be the name of one of the engine's runtimes, such as runsc")
    .optional()
    .describe("the Docker engine's runtime for sandboxes, such as `runsc`; by default the engine's own default"),
  WAVESMITH_SANDBOX_CPUS: z
    .string()
    .regex(/^([1-9]\d{0,2}(\.\d{1,2})?|0\.[1-9]\d?|0\.0[1-9])$/, "must be a number from 0.01 to 999")
    .default("2")
    .describe("processors that a sandbox may use (docker), from its next start, like the next three settings"),
  WAVESMITH_SANDBOX_MEMORY: size
    .refine((text) => sizeBytesOf(text) >= leastMemoryBytes, "must be at least 128MB")
    .default("4GB")
    .describe("memory that a sandbox may use, without swap (docker)"),
  WAVESMITH_SANDBOX_PROCESSES: z
    .string()
    .regex(/^([3-9]\d|[1-9]\d{2,5})$/, "must be a number from 30 to 999999")
    .default("512")
    .describe("processes and threads that a sandbox may have at once (docker)"),
  WAVESMITH_SANDBOX_DISK: size
    .refine((text) => sizeBytesOf(text) > 0, "must be at least 1MB")
    .default("20GB")
    .describe("the size limit of a volume; if the disk cannot enforce it, no more jobs start above it"),
  WAVESMITH_SANDBOX_IDLE: periodOrNever
    .default("2h")
    .describe("a sandbox that is idle for this long is stopped and keeps its volume; or `never`"),
  WAVESMITH_SANDBOX_IDLE_SNAPSHOT: z
    .enum(["0", "1"])
    .default("0")
    .describe("`1` takes a snapshot before an idle sandbox is stopped"),
  WAVESMITH_SANDBOX_TTL: periodOrNever
    .default("never")
    .describe("a sandbox older than this is removed once it is idle, and its volume stays; or `never`"),
  WAVESMITH_PREVIEW_TTL: periodOrNever
    .default("1h")
    .describe("a preview without a request for this long ends, and the next request starts it again; or `never`"),
  WAVESMITH_PREVIEW_DOMAIN: z
    .string()
    .regex(
      /^(https?:\/\/)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?(:\d{1,5})?$/,
      "must be a domain such as previews.example.com, or https://previews.example.com",
    )
    .optional()
    .describe(
      "a domain for nothing else, all of whose names lead to `serve`: each project's preview gets its own host there, besides its port",
    ),
  WAVESMITH_SANDBOX_MAX: z
    .string()
    .regex(/^([1-9]\d{0,3}|none)$/, "must be a number from 1 to 9999, or none")
    .default("16")
    .describe("how many sandboxes of a tenant may run at once; other builds wait; or `none`"),
  WAVESMITH_SANDBOX_OVERCOMMIT: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, "must be a number from 1 to 999")
    .default("8")
    .describe("how many processors may be promised to busy sandboxes per real processor"),
  WAVESMITH_SANDBOX_RESERVE_MEMORY: size
    .default("256MB")
    .describe("memory to keep free: no sandbox starts if it would use some of it"),
  WAVESMITH_SANDBOX_RESERVE_DISK: size
    .default("512MB")
    .describe("disk space to keep free for the data directory: no sandbox starts if it would use some of it"),
  WAVESMITH_SNAPSHOT_KEEP: period.default("30d").describe("how long a snapshot is kept"),
  WAVESMITH_RETENTION_BUILDS: periodOrNever
    .default("never")
    .describe("how long an ended build is kept, with its branches; a project's newest builds always stay; or `never`"),
  WAVESMITH_RETENTION_LOGS: periodOrNever
    .default("90d")
    .describe("how long the output of an ended build is kept; or `never`"),
  WAVESMITH_RETENTION_BRANCHES: periodOrNever
    .default("90d")
    .describe("how long the branches of an ended build's tasks are kept; what is in `main` stays; or `never`"),
  WAVESMITH_RETENTION_VOLUMES: periodOrNever
    .default("30d")
    .describe(
      "after how long without use a stopped sandbox is removed with its volume, which can be rebuilt; or `never`",
    ),
  WAVESMITH_ENGINE: z
    .enum(["embedded", "inngest"])
    .optional()
    .describe(
      "what runs the functions, unless --engine says otherwise; by default `inngest` if INNGEST_DEV or both keys are set, otherwise `embedded`",
    ),
  INNGEST_DEV: z
    .string()
    .regex(/^(1|0|true|false|https?:\/\/.+)$/i, "must be 1, 0 or the dev server's URL")
    .optional()
    .describe("`1` or a URL uses an Inngest dev server (http://127.0.0.1:8288), which signs nothing; `0` never does"),
  INNGEST_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the URL of a self-hosted Inngest server, or of a dev server at another address"),
  INNGEST_EVENT_KEY: z
    .string()
    .optional()
    .describe(
      "the key for sending events to Inngest; also the key that `POST /e/:key` of `serve` requires; without it, `serve` creates one",
    ),
  INNGEST_SIGNING_KEY: z
    .string()
    .optional()
    .describe(
      "proves that calls to `/api/inngest` come from Inngest; required for the cloud and for a self-hosted server",
    ),
  INNGEST_SIGNING_KEY_FALLBACK: z
    .string()
    .optional()
    .describe("the previous or next signing key, while keys are rotated"),
  INNGEST_ENV: z.string().optional().describe("the branch environment in Inngest's cloud"),
  INNGEST_SERVE_ORIGIN: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the URL at which others reach `serve`, if it is not the address it listens on"),
  WAVESMITH_LOG: z
    .enum(["text", "json"])
    .default("text")
    .describe("what `serve` prints: `text` for people, or `json`, one object per line"),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .regex(/^https?:\/\/\S+$/, "must be a URL, such as http://127.0.0.1:4318")
    .optional()
    .describe(
      "where to send traces of builds: an OpenTelemetry collector that takes OTLP over HTTP; by default nowhere",
    ),
  OTEL_EXPORTER_OTLP_HEADERS: z
    .string()
    .regex(/^[^\s=,]+=[^,]*(,[^\s=,]+=[^,]*)*$/, "must be NAME=VALUE, several with commas")
    .optional()
    .describe("headers for the collector, such as `authorization=Bearer%20KEY`: values are percent-encoded"),
  OTEL_SERVICE_NAME: z.string().min(1).default("wavesmith").describe("the name of this service in traces"),
  WAVESMITH_API_RATE: z
    .string()
    .regex(/^([1-9]\d{0,6}|none)$/, "must be a number from 1 to 9999999, or none")
    .default("6000")
    .describe("how many requests to the API of `serve` a key may make each minute; or `none`"),
  WAVESMITH_TASKS: z
    .string()
    .regex(/^([1-9]\d{0,3}|auto|none)$/, "must be a number from 1 to 9999, auto or none")
    .default("auto")
    .describe(
      "how many tasks may run at once, shared fairly among tenants; `auto` is 4 per processor, as memory allows, and counts only while several tenants have work; or `none`",
    ),
  WAVESMITH_TENANT_BUILDS: countOrNone.describe(
    "how many unfinished builds a tenant may have; the API refuses more; or `none`",
  ),
  WAVESMITH_TENANT_TASKS: countOrNone.describe("how many tasks of a tenant may run at once; others wait; or `none`"),
  WAVESMITH_TENANT_USD: z
    .string()
    .regex(/^(\d{1,7}(\.\d{1,2})?|none)$/, "must be an amount such as 50 or 12.50, or none")
    .default("none")
    .describe(
      "how many USD a tenant may spend on models; then its running builds make no more calls, and the API refuses more builds; or `none`",
    ),
  WAVESMITH_EVENT_SECRETS: z
    .string()
    .regex(/^\s*[A-Za-z_]\w*(\s*,\s*[A-Za-z_]\w*)*\s*$/, "must be names, separated by commas")
    .optional()
    .describe("names of secrets that plans in events may use, separated by commas; by default none"),
  WAVESMITH_WEBHOOK_KEY: z
    .string()
    .min(16, "must have at least 16 characters")
    .optional()
    .describe("signs what a plan's `notify` sends; by default the key in the data directory's `webhook-key`"),
  WAVESMITH_NOTIFY_HOSTS: z
    .string()
    .optional()
    .describe(
      "hosts on this machine or in a private network that `notify` may call, as `host` or `host:port`, separated by commas",
    ),
  WAVESMITH_SMTP_SERVER: z
    .string()
    .regex(/^smtps?:\/\/[^\s/@:]+(:\d{1,5})?\/?$/, "must be smtp://HOST:PORT or smtps://HOST:PORT")
    .optional()
    .describe(
      "the server that mails what `notify` sends to `mailto:` addresses: `smtp://HOST` (STARTTLS) or `smtps://HOST`",
    ),
  WAVESMITH_SMTP_USER: z.string().optional().describe("the user name for that server"),
  WAVESMITH_SMTP_PASSWORD: z.string().optional().describe("the password for that server"),
  WAVESMITH_SMTP_FROM: z
    .string()
    .regex(/^[^\r\n]*[^\s@<>]+@[^\s@<>]+>?$/, "must be an address such as Wavesmith <builds@example.com>")
    .optional()
    .describe("the sender of those mails; by default the user, if that is an address"),
  WAVESMITH_SMTP_TO: z
    .string()
    .optional()
    .describe(
      "addresses and domains that plans may send mail to, separated by commas; by default any, for the default tenant's plans alone",
    ),
  ...openIdSettings,
  ...githubSettings,
  WAVESMITH_PLAN_HOSTS: z
    .string()
    .optional()
    .describe(
      "hosts on this machine or in a private network from which `planUrl` may fetch a plan, as `host` or `host:port`, separated by commas",
    ),
  WAVESMITH_CI_SECRET: z
    .string()
    .min(8, "must have at least 8 characters")
    .optional()
    .describe("signs the reports of CI systems that have no key, several with commas while it is rotated"),
  ANTHROPIC_API_KEY: z
    .string()
    .optional()
    .describe("a key for Anthropic's models; like every key it stays here, because agents call our proxy"),
  CLAUDE_CODE_OAUTH_TOKEN: z
    .string()
    .optional()
    .describe(
      "a subscription's token (`claude setup-token`) instead of a key; the cost of its calls is unknown, so limit tokens or time",
    ),
  ANTHROPIC_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the URL of another server that speaks Anthropic's messages API"),
  OPENAI_API_KEY: z.string().optional().describe("a key for OpenAI's models"),
  OPENAI_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the URL of another server that speaks OpenAI's responses and chat completions APIs"),
  GEMINI_API_KEY: z.string().optional().describe("a key for Google's models (Gemini)"),
  GEMINI_BASE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe("the URL of another server that speaks Gemini's `generateContent`"),
  WAVESMITH_COMPATIBLE_URL: z
    .string()
    .regex(/^https?:\/\//, "must begin with http:// or https://")
    .optional()
    .describe(
      "the server for models named `compatible:NAME`: any that speaks chat completions, such as http://127.0.0.1:11434/v1 (Ollama, vLLM, llama.cpp)",
    ),
  WAVESMITH_COMPATIBLE_KEY: z
    .string()
    .optional()
    .describe("the key for `WAVESMITH_COMPATIBLE_URL`, if that server requires one"),
  WAVESMITH_COMPATIBLE_SERVERS: z
    .string()
    .regex(
      /^([a-z0-9-]+=https?:\/\/[^\s,]+)(,[a-z0-9-]+=https?:\/\/[^\s,]+)*$/,
      "must be NAME=URL, several with commas",
    )
    .optional()
    .describe(
      "more such servers, for models named `compatible-NAME:MODEL`: `lab=http://gpu:8000/v1,mac=http://mac:1234/v1`",
    ),
  WAVESMITH_COMPATIBLE_LIMITS: z
    .string()
    .regex(/^([a-z0-9-]+=\d+\/\d+)(,[a-z0-9-]+=\d+\/\d+)*$/, "must be NAME=WINDOW/ANSWER, several with commas")
    .optional()
    .describe(
      "the window and the longest answer of their models in tokens, if a server does not report them: `lab=32768/4096`",
    ),
  WAVESMITH_COMPATIBLE_KEYS: z
    .string()
    .regex(/^([a-z0-9-]+=[^\s,]+)(,[a-z0-9-]+=[^\s,]+)*$/, "must be NAME=KEY, several with commas")
    .optional()
    .describe("the keys of those servers: `lab=KEY`"),
  WAVESMITH_MODEL: z
    .string()
    .regex(/^[a-z0-9-]+:./, "must be provider:model, such as anthropic:claude-sonnet-5")
    .optional()
    .describe("the model of every agent of `build --brief`, such as `anthropic:claude-sonnet-5`"),
  WAVESMITH_AGENT: z
    .string()
    .min(1)
    .optional()
    .describe("the command of an ACP agent for `build --brief`, instead of the built-in agent"),
  WAVESMITH_ROLES: rolesText
    .optional()
    .describe(
      'the agents of single roles in `build --brief`, as JSON: `{"critic":{"runtime":"builtin","model":"openai:gpt-5"}}`; other roles use the two settings above, or the role `default` of this one',
    ),
  WAVESMITH_PRICES: z
    .string()
    .optional()
    .describe(
      "a JSON file with your own model prices, which override ours: a list of `{ provider, model, input, output }`, with `cached`, `cacheWrite`, `cacheWriteLong`, `long` and `batch` where they differ, in USD per million tokens",
    ),
  WAVESMITH_PRICES_URL: z
    .string()
    .regex(/^https?:\/\/\S+$/, "must be a URL")
    .default("https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json")
    .describe("where `prices update` fetches model prices: a list in LiteLLM's format"),
  WAVESMITH_MODEL_PATIENCE: pause
    .default("4m")
    .describe("how long to repeat a model call while its provider fails (500, 502, 504, no connection)"),
  WAVESMITH_CASSETTE: z
    .string()
    .regex(/^(record|replay):.+/, "must be record:FOLDER or replay:FOLDER")
    .optional()
    .describe(
      "`record:FOLDER` records every answer of a model there; `replay:FOLDER` repeats a build with those answers only",
    ),
});
/** The settings as they were given. */
export type SettingValues = z.infer<typeof settingsSchema>;
export type SettingName = keyof typeof settingsSchema.shape;

/** The settings as docs/settings.md and .env.example list them. */
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
