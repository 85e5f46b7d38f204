import { chooseSnapshot, snapshotJson } from "../../api/sandbox-use.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { shellWord } from "../../domain/shell-word.ts";
import type { Context } from "../context.ts";
import { withApp, withSandbox } from "../data/find-sandbox.ts";
import { exit as exits } from "../output/exit-codes.ts";
import { bytesText, duration, oneLine, table } from "../output/format.ts";
import { type App, isUsed, type SandboxRow, type SnapshotRow } from "../parts.ts";

export interface SnapshotCommand {
  readonly format?: string;
  readonly list?: boolean;
}

/**
 * `sandbox snapshot PROJECT [--format tar.gz]`; with `--list`, lists the snapshots of one project
 * or all.
 */
export function sandboxSnapshot(context: Context, name: string | undefined, options: SnapshotCommand): Promise<number> {
  if (options.list === true) return list(context, name);
  if (name === undefined) {
    throw new WavesmithError("usage", "snapshot needs a project", {
      remedy: `${context.hints.command("sandbox snapshot PROJECT")}; ${context.hints.command("sandbox snapshot --list")} lists the existing ones`,
    });
  }
  const format = formatOf(options.format);
  return withSandbox(context, name, (app, sandbox) => take(context, app, { name, sandbox, format }), {
    orVolume: true,
  });
}

function formatOf(text: string | undefined): SnapshotRow["format"] | undefined {
  if (text === undefined || text === "tar.zst" || text === "tar.gz") return text;
  throw new WavesmithError("usage", `--format ${text} is not a snapshot format`, { remedy: "tar.zst or tar.gz" });
}

async function take(
  context: Context,
  app: App,
  { name, sandbox, format }: { name: string; sandbox: SandboxRow; format: SnapshotRow["format"] | undefined },
): Promise<number> {
  const { takeSnapshot } = await import("../../sandbox-lifecycle/snapshots/snapshots.ts");
  const startedAt = Date.now();
  const progress = createProgress(context);
  const options = { reason: "asked", onProgress: (done: number) => progress.tell("packed", done) } as const;
  const row = await takeSnapshot(app.ports, sandbox, {
    ...options,
    ...(format === undefined ? {} : { format }),
  }).finally(progress.end);
  if (context.json) context.out.json({ snapshot: snapshotJson(row, name) });
  else {
    const until = row.expiresAt.toISOString().slice(0, 10);
    context.out.line(
      `${row.id}: ${bytesText(present(row.sizeBytes, "row.sizeBytes"))} in ${duration(Date.now() - startedAt)}, kept until ${until}`,
    );
    context.out.line(`  to restore it: ${context.hints.command(`sandbox restore ${shellWord(name)} ${row.id}`)}`);
  }
  return exits.ok;
}

async function list(context: Context, name: string | undefined): Promise<number> {
  if (name !== undefined)
    return withSandbox(context, name, (app, { projectId }) => printSnapshots(context, app, projectId), {
      orRecord: true,
    });
  if (isUsed(await context.config())) return withApp(context, (app) => printSnapshots(context, app, null));
  if (context.json) context.out.json({ snapshots: [] });
  else context.out.line("no snapshots");
  return exits.ok;
}

async function printSnapshots(context: Context, app: App, projectId: string | null): Promise<number> {
  const where = projectId === null ? {} : { projectId };
  const states = ["writing", "kept", "failed"] as const;
  const rows = await app.store.snapshots.list({ ...where, state: states }, { by: "createdAt" });
  const projects = new Map((await app.store.projects.list({})).map(({ id, name }) => [id, name]));
  const all = rows.map((row) => snapshotJson(row, projects.get(row.projectId) ?? row.projectId));
  if (context.json) {
    context.out.json({ snapshots: all });
    return exits.ok;
  }
  if (all.length === 0) context.out.line("no snapshots");
  const lines = all.map((one) => [
    oneLine(one.project),
    one.id,
    one.error === null ? one.state : `${one.state} (${oneLine(one.error).slice(0, 60)})`,
    `${one.createdAt.toISOString().slice(0, 19)}Z`,
    one.reason,
    one.sizeBytes === null ? "-" : bytesText(one.sizeBytes),
    one.state === "kept" ? `until ${one.expiresAt.toISOString().slice(0, 10)}` : "",
  ]);
  for (const line of all.length === 0 ? [] : table([heads, ...lines])) context.out.line(line);
  return exits.ok;
}

const heads = ["PROJECT", "SNAPSHOT", "STATE", "TAKEN", "BECAUSE", "SIZE", "KEPT"];

/**
 * `sandbox restore PROJECT [SNAPSHOT]`: replaces the volume with a snapshot, by default the latest.
 */
export function sandboxRestore(context: Context, name: string, snapshotId: string | undefined): Promise<number> {
  const work = async (app: App, { projectId }: SandboxRow): Promise<number> => {
    const row = await chooseSnapshot(app.ports, { id: projectId, name }, snapshotId);
    const { restoreSnapshot } = await import("../../sandbox-lifecycle/snapshots/restore-snapshot.ts");
    const progress = createProgress(context, row.sizeBytes);
    await restoreSnapshot(app.ports, row, { onProgress: progress.tell }).finally(progress.end);
    if (context.json) context.out.json({ restored: snapshotJson(row, name) });
    else {
      context.out.line(
        `the volume of ${name} is restored to its state of ${row.createdAt.toISOString().slice(0, 19)}Z (${row.id})`,
      );
      context.out.line(
        `  the sandbox is stopped; its next use starts it: ${context.hints.command(`sandbox start ${shellWord(name)}`)}`,
      );
    }
    return exits.ok;
  };
  return withSandbox(context, name, work, { orRecord: true });
}

const progressMs = 200;
const plainProgressMs = 5_000;

/** Shows progress in bytes: on one line of a terminal, now and then in a pipe, never as JSON. */
function createProgress({ out, json }: Context, total: number | null = null) {
  let toldAt = Date.now();
  let isShown = false;
  return {
    tell(what: string, done: number): void {
      const now = Date.now();
      if (json || now - toldAt < (out.live ? progressMs : plainProgressMs)) return;
      toldAt = now;
      const text = `${what} ${bytesText(done)}${total === null ? "" : ` of ${bytesText(total)}`}`;
      if (!out.live) out.note(text);
      else out.rawError(`\r\x1b[K${text}`);
      isShown = out.live;
    },
    end(): void {
      if (isShown) out.rawError("\r\x1b[K");
    },
  };
}
