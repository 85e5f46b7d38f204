import { availableParallelism } from "node:os";
import { delimiter, resolve } from "node:path";
import { z } from "zod";
import { WavesmithError } from "./domain/errors.ts";

// The only reader of the process environment. Every setting is a row of the README's table and of .env.example.

const settingsSchema = z.object({
  WAVESMITH_DATA: z.string().min(1).default(".wavesmith").describe("data directory: database, repositories, volumes"),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "must begin with postgres:// or postgresql://")
    .optional()
    .describe("a Postgres server to use instead of the embedded one"),
  WAVESMITH_SANDBOX: z
    .enum(["local", "local-unsafe"])
    .default("local")
    .describe("`sandbox.driver`: where agents run when --sandbox says nothing"),
  WAVESMITH_SANDBOX_READ_ONLY: z
    .string()
    .default("")
    .describe("`sandbox.readOnly`: further folders that sandboxes may read, separated like PATH"),
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
    .describe("sends events to Inngest; also the key that `POST /e/:key` of `serve` asks for"),
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
    .describe("where Inngest reaches `serve`, when that is not the address it listens on"),
});
export type SettingName = keyof typeof settingsSchema.shape;

/** An Inngest server, and how we and it know each other. */
export interface InngestSettings {
  readonly kind: "inngest";
  /** A dev server: nothing is signed, so only this machine may reach the functions. */
  readonly isDev: boolean;
  /** Null: Inngest's cloud. */
  readonly baseUrl: string | null;
  readonly eventKey: string;
  /** Null with a dev server alone. */
  readonly signingKey: string | null;
  readonly signingKeyFallback: string | null;
  readonly environment: string | null;
  /** Where Inngest reaches us; null: the address we listen on. */
  readonly serveOrigin: string | null;
}

export type EngineSettings = { readonly kind: "embedded"; readonly eventKey: string | null } | InngestSettings;

export interface Config {
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly sandboxDriver: "local" | "local-unsafe";
  readonly sandboxReadOnly: readonly string[];
  readonly engine: EngineSettings;
  readonly processors: number;
  /** Where the values of secrets and PATH come from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** What the README and .env.example say of each setting. */
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

/** Reads the settings, reporting every problem together. Empty variables count as absent. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const parsed = settingsSchema.safeParse(present);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new WavesmithError("usage", `settings are wrong: ${problems.join("; ")}`, {
      remedy: "mend these environment variables; the README lists every setting",
    });
  }
  const { data } = parsed;
  return {
    dataDir: resolve(data.WAVESMITH_DATA),
    databaseUrl: data.DATABASE_URL ?? null,
    sandboxDriver: data.WAVESMITH_SANDBOX,
    sandboxReadOnly: data.WAVESMITH_SANDBOX_READ_ONLY.split(delimiter).filter((path) => path !== ""),
    engine: engineSettings(data),
    processors: availableParallelism(),
    environment: env,
  };
}

const devServerUrl = "http://127.0.0.1:8288";

/** Which engine, and for an Inngest server everything it takes; never a server without keys that is not a dev server. */
function engineSettings(data: z.infer<typeof settingsSchema>): EngineSettings {
  const { INNGEST_DEV: dev, INNGEST_SIGNING_KEY: signingKey, INNGEST_EVENT_KEY: eventKey } = data;
  const devOff = dev !== undefined && /^(0|false)$/i.test(dev);
  const hasKeys = signingKey !== undefined && eventKey !== undefined;
  const kind = data.WAVESMITH_ENGINE ?? ((dev !== undefined && !devOff) || hasKeys ? "inngest" : "embedded");
  if (kind === "embedded") return { kind, eventKey: eventKey ?? null };
  const common = {
    kind,
    signingKeyFallback: data.INNGEST_SIGNING_KEY_FALLBACK ?? null,
    environment: data.INNGEST_ENV ?? null,
    serveOrigin: data.INNGEST_SERVE_ORIGIN?.replace(/\/+$/, "") ?? null,
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
