import type { Ports } from "../coordinator/port.ts";
import { WavesmithError } from "../domain/errors.ts";
import { restoreSnapshot } from "../sandbox-lifecycle/snapshots/restore-snapshot.ts";
import { takeSnapshot } from "../sandbox-lifecycle/snapshots/snapshots.ts";
import type { SandboxRow, SnapshotRow } from "../store/port.ts";
import { getSandbox, type WhichSandbox } from "./find-sandbox.ts";
import { type ListedSandbox, listSandboxes, volumeKept } from "./sandbox-list.ts";
import {
  chooseSnapshot,
  latestSandbox,
  removeUnusedSandbox,
  sandboxJson,
  snapshotJson,
  startSandbox,
  stopUnusedSandbox,
} from "./sandbox-use.ts";

// The operations on sandboxes that commands on a data directory and the server's routes share.

/** The driver and the state are names for people, as other drivers and servers may have more. */
interface Named {
  readonly id: string;
  readonly projectId: string;
  readonly state: string;
}

export type SandboxView = Omit<ReturnType<typeof sandboxJson>, keyof Named> & Named;
export type SnapshotView = Omit<ReturnType<typeof snapshotJson>, keyof Named | "sandboxId" | "reason" | "format"> &
  Named & { readonly sandboxId: string; readonly reason: string; readonly format: string };

/** Called now and then; a server does not tell how far it is. */
export interface SnapshotProgress {
  packed(doneBytes: number): void;
  restored(what: string, doneBytes: number, totalBytes: number | null): void;
}

/** The sandboxes of projects, each named by its id, or its project's id or name. */
export interface ProjectSandboxes {
  list(): Promise<{ readonly sandboxes: readonly ListedSandbox[]; readonly warnings: readonly string[] }>;
  /** Also returns the path of the volume inside. */
  start(name: string): Promise<SandboxView & { readonly workspaceRoot: string }>;
  stop(name: string): Promise<SandboxView>;
  remove(name: string, options: { readonly volume: boolean }): Promise<SandboxView>;
  /** Lists the snapshots of one project or all, oldest first. */
  snapshots(name: string | null): Promise<readonly SnapshotView[]>;
  snapshot(name: string, format: string | null, progress?: SnapshotProgress): Promise<SnapshotView>;
  /** Replaces a volume with a snapshot, by default the latest. */
  restore(name: string, id: string | null, progress?: SnapshotProgress): Promise<SnapshotView>;
}

interface SandboxPlace {
  /** These find what the caller may see. */
  readonly ports: Ports;
  /** These act, and count across tenants. */
  readonly allTenants: Ports;
  /** The name of the caller's tenant. */
  readonly tenant: string;
}

/** Opens the sandboxes of a database. */
export function openSandboxes({ ports, allTenants, tenant }: SandboxPlace): ProjectSandboxes {
  const { store } = ports;
  const find = (name: string, evenWith: WhichSandbox["evenWith"] = "volume"): Promise<SandboxRow> =>
    getSandbox(ports, name, { tenant, evenWith });
  const now = async ({ projectId }: SandboxRow): Promise<SandboxView> =>
    sandboxJson(await latestSandbox(ports, projectId));
  const projectOf = ({ projectId }: SandboxRow) => store.projects.get({ id: projectId });
  return {
    async list() {
      const warnings: string[] = [];
      return { sandboxes: await listSandboxes(ports, (message) => warnings.push(message)), warnings };
    },
    async start(name) {
      const sandbox = await find(name);
      const { workspaceRoot } = await startSandbox(allTenants, sandbox);
      return { ...(await now(sandbox)), workspaceRoot };
    },
    async stop(name) {
      const sandbox = await getSandbox(ports, name, { tenant });
      await stopUnusedSandbox(allTenants, sandbox);
      return now(sandbox);
    },
    async remove(name, options) {
      const sandbox = await find(name);
      await removeUnusedSandbox(allTenants, sandbox, options);
      return { ...(await now(sandbox)), ...(options.volume ? {} : { state: volumeKept }) };
    },
    async snapshots(name) {
      const where = name === null ? {} : { projectId: (await find(name, "record")).projectId };
      return listSnapshots(store, where);
    },
    async snapshot(name, text, progress) {
      const format = formatOf(text);
      const sandbox = await find(name);
      const onProgress = (done: number): void => progress?.packed(done);
      const options = { reason: "asked" as const, onProgress, ...(format === null ? {} : { format }) };
      return snapshotJson(await takeSnapshot(allTenants, sandbox, options), (await projectOf(sandbox)).name);
    },
    async restore(name, id, progress) {
      const project = await projectOf(await find(name, "record"));
      const row = await chooseSnapshot(ports, project, id ?? undefined);
      const onProgress = (what: string, done: number): void => progress?.restored(what, done, row.sizeBytes);
      await restoreSnapshot(allTenants, row, { onProgress });
      return snapshotJson(row, project.name);
    },
  };
}

function formatOf(text: string | null): SnapshotRow["format"] | null {
  if (text === null || text === "tar.zst" || text === "tar.gz") return text;
  throw new WavesmithError("usage", `--format ${text} is not a snapshot format`, { remedy: "tar.zst or tar.gz" });
}

async function listSnapshots(store: Ports["store"], where: { projectId?: string }): Promise<SnapshotView[]> {
  const states = ["writing", "kept", "failed"] as const;
  const rows = await store.snapshots.list({ ...where, state: states }, { by: "createdAt" });
  const projects = new Map((await store.projects.list({})).map(({ id, name }) => [id, name]));
  return rows.map((row) => snapshotJson(row, projects.get(row.projectId) ?? row.projectId));
}
