import { availableParallelism, totalmem } from "node:os";
import { delimiter, resolve } from "node:path";
import { briefAgents } from "./config/brief-agents.ts";
import { type EngineSettings, engineSettings } from "./config/engine.ts";
import { mailServer } from "./config/mail-server.ts";
import { type ModelSettings, modelSettings, namedValues } from "./config/model-providers.ts";
import { openIdProvider } from "./config/open-id.ts";
import { type GivenPreviewDomain, previewDomain } from "./config/preview-domain.ts";
import { type SettingValues, settingsSchema } from "./config/settings.ts";
import { readSettingsFile } from "./config/settings-file.ts";
import { type ShownSetting, showSettings } from "./config/shown-settings.ts";
import { durationMsOf, sizeBytesOf } from "./config/units.ts";
import type { OpenIdProvider, TaskSlots, TenantLimits } from "./domain/access.ts";
import { WavesmithError } from "./domain/errors.ts";
import type { MailServer } from "./domain/mail-server.ts";
import type { AgentSpec } from "./domain/plan/plan.ts";
import type { SandboxLimits, SandboxPolicy } from "./domain/sandbox/sandbox.ts";
import type { DriverName } from "./sandbox/drivers/registry.ts";

// The only file that reads the process environment. docs/settings.md and .env.example list every
// setting.

export interface Config {
  readonly dataDir: string;
  /** Every setting with where its value came from; without the values of secrets. */
  readonly settings: readonly ShownSetting[];
  readonly databaseUrl: string | null;
  readonly databaseWaitMs: number;
  readonly sandboxDriver: DriverName;
  readonly sandboxReadOnly: readonly string[];
  /** The Docker engine's runtime for sandboxes; null: its default. */
  readonly dockerRuntime: string | null;
  readonly sandboxPolicy: SandboxPolicy;
  /** Where `serve` shows previews besides their ports; null: nowhere. */
  readonly previewDomain: GivenPreviewDomain | null;
  readonly engine: EngineSettings;
  /** The key that `POST /e/:key` requires; null for the data directory's own key. */
  readonly serveKey: string | null;
  /** How `serve` prints what happens. */
  readonly log: "text" | "json";
  /** How long to keep each kind of data; null: for ever. */
  readonly retention: RetentionLimits;
  /** Where traces go; null: nowhere. */
  readonly traces: TraceSettings | null;
  /** How many requests a key may make each minute; null: no limit. */
  readonly requestsPerMinute: number | null;
  /** The limits of a tenant that has none of its own. */
  readonly tenantLimits: TenantLimits;
  /** How many tasks of all tenants may run at once. */
  readonly taskSlots: TaskSlots;
  /** Names of secrets that plans sent by events may use. */
  readonly eventSecrets: readonly string[];
  /** Signs what `notify` sends; null for the data directory's own key. */
  readonly webhookKey: string | null;
  /** Private hosts that `notify` may call. */
  readonly notifyHosts: readonly string[];
  /** The server that sends mail for `notify`; null: mail cannot be sent. */
  readonly mailServer: MailServer | null;
  /** How we reach GitHub, and sign in there. */
  readonly github: GitHubConfig;
  /** Private hosts from which a plan may be fetched. */
  readonly planHosts: readonly string[];
  /** Who may send webhooks, and what starts a build in them. */
  readonly webhooks: {
    readonly githubSecrets: readonly string[];
    readonly ciSecrets: readonly string[];
    /** Repositories where people may start builds before any build has delivered there. */
    readonly repositories: readonly string[];
    /** How often we ask GitHub for news; null: never. */
    readonly pollMs: number | null;
    readonly triggers: { readonly label: string; readonly assignee: string | null };
  };
  /** The OpenID provider with which people sign in; null: they need keys. */
  readonly openId: OpenIdProvider | null;
  readonly models: ModelSettings;
  /** The agents of builds from a brief, by their roles; empty if no setting names one. */
  readonly briefAgents: Readonly<Record<string, AgentSpec>>;
  readonly processors: number;
  readonly memoryBytes: number;
  /** Our own keys and tokens by setting name; they must appear in no output. */
  readonly credentials: Readonly<Record<string, string>>;
  /** The source of PATH and of secrets' values. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/**
 * Reads the settings, from the environment and then from the data directory's file, and reports all
 * problems together. Empty variables count as absent.
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const dataDir = resolve(present.WAVESMITH_DATA ?? settingsSchema.shape.WAVESMITH_DATA.parse(undefined));
  const file = readSettingsFile(dataDir);
  const parsed = settingsSchema.safeParse({ ...file.values, ...present });
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new WavesmithError("usage", `settings are wrong: ${problems.join("; ")}`, {
      remedy: "fix these environment variables; docs/settings.md lists every setting",
    });
  }
  const { data } = parsed;
  return {
    dataDir,
    settings: showSettings(data, { present, lines: file.lines }),
    databaseUrl: data.DATABASE_URL ?? null,
    databaseWaitMs: durationMsOf(data.WAVESMITH_DATABASE_WAIT)!,
    sandboxDriver: data.WAVESMITH_SANDBOX,
    dockerRuntime: data.WAVESMITH_DOCKER_RUNTIME ?? null,
    sandboxReadOnly: data.WAVESMITH_SANDBOX_READ_ONLY.split(delimiter).filter((path) => path !== ""),
    sandboxPolicy: sandboxPolicy(data),
    previewDomain: previewDomain(data),
    engine: engineSettings(data),
    serveKey: data.INNGEST_EVENT_KEY ?? null,
    log: data.WAVESMITH_LOG,
    traces: traceSettings(data),
    retention: retention(data),
    eventSecrets: listOf(data.WAVESMITH_EVENT_SECRETS),
    webhookKey: data.WAVESMITH_WEBHOOK_KEY ?? null,
    notifyHosts: listOf(data.WAVESMITH_NOTIFY_HOSTS),
    mailServer: mailServer(data),
    planHosts: listOf(data.WAVESMITH_PLAN_HOSTS),
    webhooks: {
      githubSecrets: listOf(data.WAVESMITH_GITHUB_WEBHOOK_SECRET),
      ciSecrets: listOf(data.WAVESMITH_CI_SECRET),
      pollMs: durationMsOf(data.WAVESMITH_GITHUB_POLL),
      repositories: listOf(data.WAVESMITH_GITHUB_REPOSITORIES),
      triggers: { label: data.WAVESMITH_GITHUB_LABEL, assignee: data.WAVESMITH_GITHUB_ASSIGNEE ?? null },
    },
    requestsPerMinute: countOrNull(data.WAVESMITH_API_RATE),
    tenantLimits: tenantLimits(data),
    github: {
      apiUrl: data.WAVESMITH_GITHUB_API.replace(/\/+$/, ""),
      webUrl: data.WAVESMITH_GITHUB_URL.replace(/\/+$/, ""),
      token: data.WAVESMITH_GITHUB_TOKEN ?? null,
      app: appSettings(data),
    },
    taskSlots: data.WAVESMITH_TASKS === "auto" ? "auto" : countOrNull(data.WAVESMITH_TASKS),
    openId: openIdProvider(data),
    models: modelSettings(data),
    briefAgents: briefAgents(data),
    processors: availableParallelism(),
    memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
    credentials: credentials(data),
    environment: env,
  };
}

const listOf = (text = ""): string[] => text.split(",").flatMap((part) => part.trim() || []);
const countOrNull = (text: string): number | null => (text === "none" ? null : Number(text));

/**
 * Shorter keys, such as `ollama`, are placeholders for servers that need none; masking them would
 * blank out ordinary text.
 */
const shortestCredential = 12;

function credentials(data: SettingValues): Record<string, string> {
  const named = Object.entries(data).filter(([name]) =>
    /_(KEY|KEY_FALLBACK|TOKEN|PASSWORD|CLIENT_SECRET)$|^DATABASE_URL$/.test(name),
  );
  for (const [name, key] of namedValues(data.WAVESMITH_COMPATIBLE_KEYS)) {
    named.push([`WAVESMITH_COMPATIBLE_KEYS.${name}`, key]);
  }
  for (const name of ["WAVESMITH_GITHUB_WEBHOOK_SECRET", "WAVESMITH_CI_SECRET"] as const)
    for (const [index, secret] of listOf(data[name]).entries()) named.push([`${name}.${index + 1}`, secret]);
  for (const [name, value] of Object.entries(traceSettings(data)?.headers ?? {})) {
    named.push([`OTEL_EXPORTER_OTLP_HEADERS.${name}`, value.replace(/^Bearer /, "")]);
  }
  return Object.fromEntries(
    named.filter((entry): entry is [string, string] => String(entry[1] ?? "").length >= shortestCredential),
  );
}

/** The settings for GitHub; without a credential, the data directory's own counts. */
export interface GitHubConfig {
  readonly apiUrl: string;
  readonly webUrl: string;
  readonly token: string | null;
  readonly app: { readonly id: string; readonly keyFile: string } | null;
}

function appSettings(data: SettingValues): GitHubConfig["app"] {
  const { WAVESMITH_GITHUB_APP_ID: id, WAVESMITH_GITHUB_APP_KEY_FILE: keyFile } = data;
  if (id === undefined && keyFile === undefined) return null;
  if (id !== undefined && keyFile !== undefined) return { id, keyFile: resolve(keyFile) };
  throw new WavesmithError(
    "usage",
    "a GitHub App needs both WAVESMITH_GITHUB_APP_ID and WAVESMITH_GITHUB_APP_KEY_FILE",
    {
      remedy: "set the other one, or use WAVESMITH_GITHUB_TOKEN",
    },
  );
}

/** How long to keep unused data, in milliseconds; null: for ever. */
export interface RetentionLimits {
  readonly buildsMs: number | null;
  readonly logsMs: number | null;
  readonly branchesMs: number | null;
  readonly volumesMs: number | null;
}

/** An OpenTelemetry collector, and under which name we send to it. */
export interface TraceSettings {
  /** The URL of its traces, with `/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

function retention(data: SettingValues): Config["retention"] {
  return {
    buildsMs: durationMsOf(data.WAVESMITH_RETENTION_BUILDS),
    logsMs: durationMsOf(data.WAVESMITH_RETENTION_LOGS),
    branchesMs: durationMsOf(data.WAVESMITH_RETENTION_BRANCHES),
    volumesMs: durationMsOf(data.WAVESMITH_RETENTION_VOLUMES),
  };
}

function tenantLimits(data: SettingValues): Config["tenantLimits"] {
  return {
    builds: countOrNull(data.WAVESMITH_TENANT_BUILDS),
    tasks: countOrNull(data.WAVESMITH_TENANT_TASKS),
    sandboxes: countOrNull(data.WAVESMITH_SANDBOX_MAX),
    usd: countOrNull(data.WAVESMITH_TENANT_USD),
  };
}

function traceSettings(data: SettingValues): TraceSettings | null {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers } = data;
  if (endpoint === undefined) return null;
  return {
    url: `${endpoint.replace(/\/+$/, "")}/v1/traces`,
    headers: Object.fromEntries([...namedValues(headers)].map(([name, value]) => [name, decodeURIComponent(value)])),
    serviceName: data.OTEL_SERVICE_NAME,
  };
}

function sandboxPolicy(data: SettingValues): SandboxPolicy {
  return {
    limits: sandboxLimits(data),
    idleMs: durationMsOf(data.WAVESMITH_SANDBOX_IDLE),
    ttlMs: durationMsOf(data.WAVESMITH_SANDBOX_TTL),
    snapshotWhenIdle: data.WAVESMITH_SANDBOX_IDLE_SNAPSHOT === "1",
    previewTtlMs: durationMsOf(data.WAVESMITH_PREVIEW_TTL),
    snapshotKeepMs: durationMsOf(data.WAVESMITH_SNAPSHOT_KEEP)!,
    cpuOvercommit: Number(data.WAVESMITH_SANDBOX_OVERCOMMIT),
    reserveMemoryBytes: sizeBytesOf(data.WAVESMITH_SANDBOX_RESERVE_MEMORY),
    reserveDiskBytes: sizeBytesOf(data.WAVESMITH_SANDBOX_RESERVE_DISK),
  };
}

const sandboxLimits = (data: SettingValues): SandboxLimits => ({
  cpus: Number(data.WAVESMITH_SANDBOX_CPUS),
  memoryBytes: sizeBytesOf(data.WAVESMITH_SANDBOX_MEMORY),
  processes: Number(data.WAVESMITH_SANDBOX_PROCESSES),
  diskBytes: sizeBytesOf(data.WAVESMITH_SANDBOX_DISK),
});
