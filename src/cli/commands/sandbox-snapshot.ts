import type { SnapshotProgress, SnapshotView } from "../../api/project-sandboxes.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { shellWord } from "../../domain/shell-word.ts";
import { withSandboxes } from "../builds/sandboxes.ts";
import type { Context } from "../context.ts";
import { exit as exits } from "../output/exit-codes.ts";
import { bytesText, duration, oneLine, table } from "../output/format.ts";

export interface SnapshotCommand {
  readonly format?: string;
  readonly list?: boolean;
}

/**
 * `sandbox snapshot PROJECT [--format tar.gz]`; with `--list`, lists the snapshots of one project
 * or all.
 */
export function sandboxSnapshot(context: Context, name: string | undefined, options: SnapshotCommand): Promise<number> {
  const { list, format = null } = options;
  if (list === true)
    return withSandboxes(context, async (all) => printSnapshots(context, await all.snapshots(name ?? null)));
  if (name === undefined) {
    throw new WavesmithError("usage", "snapshot needs a project", {
      remedy: `${context.hints.command("sandbox snapshot PROJECT")}; ${context.hints.command("sandbox snapshot --list")} lists the existing ones`,
    });
  }
  return withSandboxes(context, async (all) => {
    const startedAt = Date.now();
    const progress = createProgress(context);
    const snapshot = await all.snapshot(name, format, progress).finally(progress.end);
    if (context.json) context.out.json({ snapshot });
    else {
      const size = bytesText(present(snapshot.sizeBytes, "the size of a kept snapshot"));
      const until = snapshot.expiresAt.slice(0, 10);
      context.out.line(`${snapshot.id}: ${size} in ${duration(Date.now() - startedAt)}, kept until ${until}`);
      const restore = context.hints.command(`sandbox restore ${shellWord(name)} ${snapshot.id}`);
      context.out.line(`  to restore it: ${restore}`);
    }
    return exits.ok;
  });
}

function printSnapshots(context: Context, snapshots: readonly SnapshotView[]): number {
  if (context.json) {
    context.out.json({ snapshots });
    return exits.ok;
  }
  if (snapshots.length === 0) context.out.line("no snapshots");
  const lines = snapshots.map((one) => [
    oneLine(one.project),
    one.id,
    one.error === null ? one.state : `${one.state} (${oneLine(one.error).slice(0, 60)})`,
    `${one.createdAt.slice(0, 19)}Z`,
    one.reason,
    one.sizeBytes === null ? "-" : bytesText(one.sizeBytes),
    one.state === "kept" ? `until ${one.expiresAt.slice(0, 10)}` : "",
  ]);
  for (const line of snapshots.length === 0 ? [] : table([heads, ...lines])) context.out.line(line);
  return exits.ok;
}

const heads = ["PROJECT", "SNAPSHOT", "STATE", "TAKEN", "BECAUSE", "SIZE", "KEPT"];

/**
 * `sandbox restore PROJECT [SNAPSHOT]`: replaces the volume with a snapshot, by default the latest.
 */
export function sandboxRestore(context: Context, name: string, snapshotId: string | undefined): Promise<number> {
  return withSandboxes(context, async (all) => {
    const progress = createProgress(context);
    const restored = await all.restore(name, snapshotId ?? null, progress).finally(progress.end);
    if (context.json) context.out.json({ restored });
    else {
      const when = `${restored.createdAt.slice(0, 19)}Z`;
      context.out.line(`restored the volume of ${name} to its state of ${when} (${restored.id})`);
      const start = context.hints.command(`sandbox start ${shellWord(name)}`);
      context.out.line(`  the sandbox is stopped; its next use starts it: ${start}`);
    }
    return exits.ok;
  });
}

const progressMs = 200;
const plainProgressMs = 5_000;

/** Shows progress in bytes: on one line of a terminal, now and then in a pipe, never as JSON. */
function createProgress({ out, json }: Context): SnapshotProgress & { end(): void } {
  let toldAt = Date.now();
  let isShown = false;
  const show = (what: string, done: number, total: number | null): void => {
    const now = Date.now();
    if (json || now - toldAt < (out.live ? progressMs : plainProgressMs)) return;
    toldAt = now;
    const text = `${what} ${bytesText(done)}${total === null ? "" : ` of ${bytesText(total)}`}`;
    if (!out.live) out.note(text);
    else out.rawError(`\r\x1b[K${text}`);
    isShown = out.live;
  };
  return {
    packed: (done) => show("packed", done, null),
    restored: show,
    end() {
      if (isShown) out.rawError("\r\x1b[K");
    },
  };
}
