import type { Ports } from "../coordinator/port.ts";
import { messageOf } from "../domain/errors.ts";
import type { SandboxWall } from "../domain/sandbox/sandbox.ts";
import type { SandboxInfo, SandboxUsage } from "../sandbox/port.ts";
import type { SandboxRow } from "../store/port.ts";

/** A sandbox as `sandbox ls` lists it. */
export interface ListedSandbox {
  readonly id: string;
  readonly project: string;
  readonly projectId: string;
  readonly driver: string;
  readonly state: string;
  /** How its jobs are isolated from each other; null if it is not running. */
  readonly wall: SandboxWall | null;
  /** Why it is not running, or why a running one accepts no more jobs. */
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
export const volumeKept = "removed, volume kept";

type ListPorts = Pick<Ports, "store" | "driver">;

/** Lists the sandboxes that the store shows, and the volumes that were kept, with what they use. */
export async function listSandboxes(ports: ListPorts, warn: (message: string) => void): Promise<ListedSandbox[]> {
  const all = await ports.store.sandboxes.list({}, { by: "createdAt" });
  const rows = all.filter((row) => row.state !== "removed");
  const withSandboxes = new Set(rows.map(({ projectId }) => projectId));
  // For each project without a sandbox, the last one it had.
  const last = new Map(all.filter(({ projectId }) => !withSandboxes.has(projectId)).map((row) => [row.projectId, row]));
  const shown = [...rows, ...last.values()];
  const projects = new Map((await ports.store.projects.list({})).map(({ id, name }) => [id, name]));
  const infos = await infosOf(ports, new Set(shown.map(({ driver }) => driver)), warn);
  const found = await Promise.all(
    shown.map(async (row) => {
      const info = infos.get(`${row.driver} ${row.projectId}`);
      if (row.state === "removed" && (info?.volumePath ?? null) === null) return [];
      return [await described(ports, row, info, projects.get(row.projectId) ?? row.projectId)];
    }),
  );
  return found.flat();
}

/** Lists a driver's sandboxes; an unreachable driver does not hide the others'. */
async function infosOf(ports: ListPorts, drivers: ReadonlySet<string>, warn: (message: string) => void) {
  const infos = new Map<string, SandboxInfo>();
  for (const driver of drivers) {
    try {
      for (const info of await ports.driver(driver).list()) infos.set(`${driver} ${info.projectId}`, info);
    } catch (error) {
      warn(`the current state of ${driver} sandboxes is unknown: ${messageOf(error)}`);
    }
  }
  return infos;
}

async function described(
  ports: ListPorts,
  row: SandboxRow,
  info: SandboxInfo | undefined,
  project: string,
): Promise<ListedSandbox> {
  const runs = info?.state === "running" && row.state !== "removed";
  const [usage, idleMs] = runs ? await Promise.all([usageOf(ports, row), idleTime(ports, row)]) : [null, null];
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
const usageOf = (ports: ListPorts, { driver, projectId }: SandboxRow): Promise<SandboxUsage | null> =>
  ports
    .driver(driver)
    .usage(projectId)
    .catch(() => null);

async function idleTime(ports: ListPorts, { driver, projectId }: SandboxRow): Promise<number | null> {
  const endpoint = await ports.driver(driver).find(projectId);
  const health = await endpoint?.guest.health().catch(() => null); // it just ended
  return health?.idleMs ?? null;
}
