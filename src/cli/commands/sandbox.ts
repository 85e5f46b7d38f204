import {
  latestSandbox,
  removeUnusedSandbox,
  sandboxJson,
  startSandbox,
  stopUnusedSandbox,
} from "../../api/sandbox-use.ts";
import { messageOf } from "../../domain/errors.ts";
import { describeWall, type SandboxWall } from "../../domain/sandbox/sandbox.ts";
import type { Context } from "../context.ts";
import { withApp, withSandbox } from "../data/find-sandbox.ts";
import { exit as exits } from "../output/exit-codes.ts";
import { bytesText, duration, oneLine, table } from "../output/format.ts";
import { type App, isUsed, type SandboxInfo, type SandboxRow, type SandboxUsage } from "../parts.ts";

interface Listed {
  readonly id: string;
  readonly project: string;
  readonly projectId: string;
  readonly driver: string;
  readonly state: string;
  /** How its jobs are isolated from each other; null if it is not running. */
  readonly wall: SandboxWall | null;
  /** Why it is not running, or why a running one starts no further jobs. */
  readonly reason: string | null;
  readonly createdAt: string;
  /** When it started. */
  readonly since: string | null;
  /** How long it has been idle; null if it is not running. */
  readonly idleMs: number | null;
  /** Processors in use. */
  readonly cpus: number | null;
  readonly memoryBytes: number | null;
  readonly processes: number | null;
  readonly diskBytes: number | null;
  /** When the disk use was measured; null if just now or unknown. */
  readonly diskCountedAt: string | null;
}

/** The state of a sandbox that was removed without its volume. */
const volumeKept = "removed, volume kept";

/** `sandbox ls`: lists every sandbox of this data directory. */
export async function sandboxList(context: Context): Promise<number> {
  const rows = isUsed(await context.config()) ? await withApp(context, (app) => listed(app, context.warn)) : [];
  if (context.json) {
    context.out.json({ sandboxes: rows });
    return exits.ok;
  }
  if (rows.length === 0) context.out.line("no sandboxes");
  else for (const line of table([heads, ...rows.map((row) => cells(row, Date.now()))])) context.out.line(line);
  return exits.ok;
}

const heads = ["PROJECT", "SANDBOX", "DRIVER", "WALL", "STATE", "AGE", "IDLE", "CPU", "MEMORY", "DISK"];

function cells(row: Listed, now: number): string[] {
  const { reason, idleMs, cpus, memoryBytes, diskBytes, diskCountedAt } = row;
  const countedAgo = diskCountedAt === null ? "" : ` (${duration(now - Date.parse(diskCountedAt))} ago)`;
  const why = reason === null || row.state === volumeKept ? "" : ` (${oneLine(reason).slice(0, 60)})`;
  return [
    oneLine(row.project),
    row.id,
    row.driver,
    row.wall === null ? "-" : describeWall(row.wall),
    `${row.state}${why}`,
    duration(now - Date.parse(row.createdAt)),
    idleMs === null ? "-" : duration(idleMs),
    cpus === null ? "-" : cpus.toFixed(2),
    memoryBytes === null ? "-" : bytesText(memoryBytes),
    diskBytes === null ? "-" : `${bytesText(diskBytes)}${countedAgo}`,
  ];
}

async function listed(app: App, warn: (message: string) => void): Promise<Listed[]> {
  const all = await app.store.sandboxes.list({}, { by: "createdAt" });
  const rows = all.filter((row) => row.state !== "removed");
  const withSandboxes = new Set(rows.map(({ projectId }) => projectId));
  // For each project without a sandbox, the last one it had.
  const last = new Map(all.filter(({ projectId }) => !withSandboxes.has(projectId)).map((row) => [row.projectId, row]));
  const shown = [...rows, ...last.values()];
  const projects = new Map((await app.store.projects.list({})).map(({ id, name }) => [id, name]));
  const infos = await infosOf(app, new Set(shown.map(({ driver }) => driver)), warn);
  const found = await Promise.all(
    shown.map(async (row) => {
      const info = infos.get(`${row.driver} ${row.projectId}`);
      if (row.state === "removed" && (info?.volumePath ?? null) === null) return [];
      return [await described(app, row, info, projects.get(row.projectId) ?? row.projectId)];
    }),
  );
  return found.flat();
}

/** Lists a driver's sandboxes; an unreachable driver does not hide the others'. */
async function infosOf(app: App, drivers: ReadonlySet<string>, warn: (message: string) => void) {
  const infos = new Map<string, SandboxInfo>();
  for (const driver of drivers) {
    try {
      for (const info of await app.ports.driver(driver).list()) infos.set(`${driver} ${info.projectId}`, info);
    } catch (error) {
      warn(`the current state of ${driver} sandboxes is unknown: ${messageOf(error)}`);
    }
  }
  return infos;
}

async function described(app: App, row: SandboxRow, info: SandboxInfo | undefined, project: string): Promise<Listed> {
  const runs = info?.state === "running" && row.state !== "removed";
  const [usage, idleMs] = runs ? await Promise.all([usageOf(app, row), idleTime(app, row)]) : [null, null];
  return {
    id: row.id,
    project,
    projectId: row.projectId,
    driver: row.driver,
    wall: runs ? row.wall : null,
    state: runs ? "running" : stateOf(row),
    reason: runs && row.state !== "running" ? null : row.reason,
    createdAt: row.createdAt.toISOString(),
    since: runs ? info.startedAt : null,
    idleMs,
    cpus: usage?.cpus ?? null,
    memoryBytes: usage?.memoryBytes ?? null,
    processes: usage?.processes ?? null,
    diskBytes: usage?.diskBytes ?? info?.diskBytes ?? null,
    diskCountedAt: runs ? null : (info?.diskCountedAt ?? null),
  };
}

/** Describes a sandbox that is not running. */
function stateOf({ state, reason }: SandboxRow): string {
  if (state === "removed") return volumeKept;
  if (state === "wanted" && reason !== null) return "waiting";
  return state === "lost" ? "lost" : "stopped";
}

/** Reads the state of a sandbox, which may end meanwhile. */
const usageOf = (app: App, { driver, projectId }: SandboxRow): Promise<SandboxUsage | null> =>
  app.ports
    .driver(driver)
    .usage(projectId)
    .catch(() => null);

async function idleTime(app: App, { driver, projectId }: SandboxRow): Promise<number | null> {
  const endpoint = await app.ports.driver(driver).find(projectId);
  const health = await endpoint?.guest.health().catch(() => null); // it just ended
  return health?.idleMs ?? null;
}

/** `sandbox start PROJECT`: starts the sandbox, again if its volume was kept. */
export function sandboxStart(context: Context, name: string): Promise<number> {
  const work = async (app: App, sandbox: SandboxRow): Promise<number> => {
    const { workspaceRoot } = await startSandbox(app.ports, sandbox);
    const text = `the sandbox of ${name} runs (${sandbox.driver}, its volume is ${workspaceRoot} inside)`;
    return printState(context, app, sandbox, { text });
  };
  return withSandbox(context, name, work, { orVolume: true });
}

/** `sandbox stop PROJECT`: stops the sandbox and keeps its volume. */
export function sandboxStop(context: Context, name: string): Promise<number> {
  return withSandbox(context, name, async (app, sandbox) => {
    await stopUnusedSandbox(app.ports, sandbox);
    return printState(context, app, sandbox, {
      text: `the sandbox of ${name} is stopped; its next use starts it again`,
    });
  });
}

/** `sandbox rm PROJECT [--volume]`: removes the sandbox; its volume stays unless asked. */
export function sandboxRemove(context: Context, name: string, options: { volume: boolean }): Promise<number> {
  const work = async (app: App, sandbox: SandboxRow): Promise<number> => {
    await removeUnusedSandbox(app.ports, sandbox, options);
    const rest = options.volume ? "with its volume; the repository stays" : "and its volume kept (--volume removes it)";
    const text = `the sandbox of ${name} is removed, ${rest}`;
    return printState(context, app, sandbox, options.volume ? { text } : { text, state: volumeKept });
  };
  return withSandbox(context, name, work, { orVolume: true });
}

/** Reports the new state, in the words of `sandbox ls`, and returns the exit code. */
async function printState(
  { out, json }: Context,
  { ports }: App,
  { projectId }: SandboxRow,
  { text, ...words }: { readonly text: string; readonly state?: string },
): Promise<number> {
  if (json) out.json({ ...sandboxJson(await latestSandbox(ports, projectId)), ...words });
  else out.line(text);
  return exits.ok;
}
