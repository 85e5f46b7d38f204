import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { isMap, isNode, isScalar, LineCounter, type Pair, parseDocument, type YAMLMap } from "yaml";
import { WavesmithError } from "../domain/errors.ts";
import { yamlDepth } from "../domain/plan/yaml-depth.ts";
import { type SettingName, settingsSchema } from "./settings.ts";

// `settings.yaml` in the data directory. A variable of the environment overrides it. It has no keys
// for secrets: a file is copied, backed up and shown too easily.

/** The keys of the file, with the setting that each one sets. */
export const fileKeys = {
  "sandbox.driver": "WAVESMITH_SANDBOX",
  "sandbox.readOnly": "WAVESMITH_SANDBOX_READ_ONLY",
  "sandbox.dockerRuntime": "WAVESMITH_DOCKER_RUNTIME",
  "sandbox.cpus": "WAVESMITH_SANDBOX_CPUS",
  "sandbox.memory": "WAVESMITH_SANDBOX_MEMORY",
  "sandbox.processes": "WAVESMITH_SANDBOX_PROCESSES",
  "sandbox.disk": "WAVESMITH_SANDBOX_DISK",
  "sandbox.idle": "WAVESMITH_SANDBOX_IDLE",
  "sandbox.idleSnapshot": "WAVESMITH_SANDBOX_IDLE_SNAPSHOT",
  "sandbox.ttl": "WAVESMITH_SANDBOX_TTL",
  "sandbox.previewTtl": "WAVESMITH_PREVIEW_TTL",
  "sandbox.overcommit": "WAVESMITH_SANDBOX_OVERCOMMIT",
  "sandbox.reserveMemory": "WAVESMITH_SANDBOX_RESERVE_MEMORY",
  "sandbox.reserveDisk": "WAVESMITH_SANDBOX_RESERVE_DISK",
  "agents.model": "WAVESMITH_MODEL",
  "agents.command": "WAVESMITH_AGENT",
  "agents.roles": "WAVESMITH_ROLES",
  "models.patience": "WAVESMITH_MODEL_PATIENCE",
  "models.prices": "WAVESMITH_PRICES",
  "models.compatibleUrl": "WAVESMITH_COMPATIBLE_URL",
  "limits.tasks": "WAVESMITH_TASKS",
  "limits.tenantBuilds": "WAVESMITH_TENANT_BUILDS",
  "limits.tenantTasks": "WAVESMITH_TENANT_TASKS",
  "limits.tenantSandboxes": "WAVESMITH_SANDBOX_MAX",
  "limits.tenantUsd": "WAVESMITH_TENANT_USD",
  "limits.requestsPerMinute": "WAVESMITH_API_RATE",
  "network.notifyHosts": "WAVESMITH_NOTIFY_HOSTS",
  "network.planHosts": "WAVESMITH_PLAN_HOSTS",
  "secrets.events": "WAVESMITH_EVENT_SECRETS",
  "retention.builds": "WAVESMITH_RETENTION_BUILDS",
  "retention.logs": "WAVESMITH_RETENTION_LOGS",
  "retention.branches": "WAVESMITH_RETENTION_BRANCHES",
  "retention.volumes": "WAVESMITH_RETENTION_VOLUMES",
  "retention.snapshots": "WAVESMITH_SNAPSHOT_KEEP",
  "server.engine": "WAVESMITH_ENGINE",
  "server.log": "WAVESMITH_LOG",
  "server.databaseWait": "WAVESMITH_DATABASE_WAIT",
  "traces.endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT",
  "traces.serviceName": "OTEL_SERVICE_NAME",
} as const satisfies Readonly<Record<string, SettingName>>;

/** The key of each setting that the file may have. */
export const keyOfSetting: ReadonlyMap<SettingName, string> = new Map(
  Object.entries(fileKeys).map(([key, name]) => [name, key]),
);

/** The separator of a setting that is a list in the file. */
const lists: Partial<Record<SettingName, string>> = {
  WAVESMITH_SANDBOX_READ_ONLY: delimiter,
  WAVESMITH_NOTIFY_HOSTS: ",",
  WAVESMITH_PLAN_HOSTS: ",",
  WAVESMITH_EVENT_SECRETS: ",",
};

export interface SettingFault {
  /** The key in the file; empty for a fault of the whole file. */
  readonly path: string;
  readonly line: number | null;
  readonly message: string;
}

export interface SettingsText {
  /** The values, in the form of environment variables. */
  readonly values: Readonly<Partial<Record<SettingName, string>>>;
  /** The line of each value. */
  readonly lines: Readonly<Partial<Record<SettingName, number>>>;
  readonly faults: readonly SettingFault[];
}

const settingByKey = new Map<string, SettingName>(Object.entries(fileKeys));
const maxFileBytes = 256 * 1024;
const deepest = 50;

/** A value of the file with its key. */
interface Entry {
  readonly path: string;
  readonly line: number | null;
  /** Absent if the group is not a map. */
  readonly value?: unknown;
}

/** Reads settings in YAML or JSON, and finds all their faults. */
export function parseSettings(text: string): SettingsText {
  const none = { values: {}, lines: {} };
  const whole = (message: string): SettingsText => ({ ...none, faults: [{ path: "", line: null, message }] });
  if (Buffer.byteLength(text) > maxFileBytes || yamlDepth(text) > deepest)
    return whole("the settings are too large, or nested too deep");
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter });
  const lineAt = (offset: number): number => counter.linePos(offset).line;
  if (document.errors.length > 0) {
    const faults = document.errors.map(({ message, pos }) => ({
      ...{ path: "", line: lineAt(pos[0]), message: message.split("\n")[0] ?? message },
    }));
    return { ...none, faults };
  }
  const { contents } = document;
  if (contents === null) return { ...none, faults: [] };
  if (!isMap(contents)) return whole("the settings must be a map, such as limits: { tasks: 8 }");
  return checkEntries(entriesIn(contents, lineAt));
}

/** Lists the values of a map of maps. */
function entriesIn(contents: YAMLMap, lineAt: (offset: number) => number): Entry[] {
  const named = ({ key }: Pair) => ({
    name: isScalar(key) ? String(key.value) : "?",
    line: isScalar(key) && key.range ? lineAt(key.range[0]) : null,
  });
  return contents.items.flatMap((pair): Entry[] => {
    const group = named(pair);
    if (group.name.startsWith("x-")) return [];
    if (!isMap(pair.value)) return [{ path: group.name, line: group.line }];
    return pair.value.items.map((inner) => {
      const { name, line } = named(inner);
      const value: unknown = isNode(inner.value) ? inner.value.toJSON() : inner.value;
      return { path: `${group.name}.${name}`, line, value };
    });
  });
}

function checkEntries(entries: readonly Entry[]): SettingsText {
  const values: Partial<Record<SettingName, string>> = {};
  const lines: Partial<Record<SettingName, number>> = {};
  const faults: SettingFault[] = [];
  for (const { path, line, value } of entries) {
    const name = settingByKey.get(path);
    const text = name === undefined ? null : textOf(name, value);
    const message =
      name === undefined
        ? unknownKey(path)
        : text === null
          ? "has a value of another kind"
          : settingsSchema.shape[name].safeParse(text).error?.issues[0]?.message;
    if (message !== undefined) faults.push({ path, line, message });
    else if (name !== undefined && text !== null) values[name] = text;
    if (name !== undefined && line !== null) lines[name] = line;
  }
  return { values, lines, faults };
}

/** The value in the form of an environment variable; null if it has the wrong type. */
function textOf(name: SettingName, value: unknown): string | null {
  const separator = lists[name];
  if (name === "WAVESMITH_ROLES") return typeof value === "object" ? JSON.stringify(value) : null;
  if (Array.isArray(value) && separator !== undefined)
    return value.every((one) => typeof one === "string" && !one.includes(separator)) ? value.join(separator) : null;
  if (typeof value === "boolean") return name === "WAVESMITH_SANDBOX_IDLE_SNAPSHOT" ? (value ? "1" : "0") : null;
  return typeof value === "string" || typeof value === "number" ? String(value) : null;
}

function unknownKey(path: string): string {
  const group = path.split(".")[0] ?? "";
  const keys = [...settingByKey.keys()];
  const near = keys.filter((key) => key.startsWith(`${group}.`)).map((key) => key.slice(group.length + 1));
  const groups = [...new Set(keys.map((key) => key.split(".")[0]))];
  return near.length > 0 && path.includes(".")
    ? `is not a setting; ${group} has ${near.join(", ")}`
    : near.length > 0
      ? `must be a map with ${near.join(", ")}`
      : `is not a setting; there are ${groups.join(", ")}`;
}

export const settingsFile = (dataDir: string): string => join(dataDir, "settings.yaml");

/** Returns the text of the settings file; empty if there is none. */
export function settingsText(dataDir: string): string {
  try {
    return readFileSync(settingsFile(dataDir), "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return "";
    throw new WavesmithError("environment", `cannot read ${settingsFile(dataDir)}: ${(error as Error).message}`, {
      remedy: "let this user read it, or remove it",
      cause: error,
    });
  }
}

/** One line for each fault. */
const faultLines = (faults: readonly SettingFault[]): string[] =>
  faults.map(({ path, line, message }) =>
    [line === null ? "" : `line ${line}:`, path, message].filter((part) => part !== "").join(" "),
  );

/** Reads the settings file of a data directory. Fails with `usage`, naming every fault's line. */
export function readSettingsFile(dataDir: string): Omit<SettingsText, "faults"> {
  const { faults, ...read } = parseSettings(settingsText(dataDir));
  if (faults.length === 0) return read;
  throw new WavesmithError(
    "usage",
    `${settingsFile(dataDir)} is wrong: ${faultLines(faults).slice(0, 20).join("; ")}`,
    {
      remedy: "fix the file; docs/settings.md lists its keys",
    },
  );
}
