import type { SandboxView } from "../../api/project-sandboxes.ts";
import { type ListedSandbox, volumeKept } from "../../api/sandbox-list.ts";
import { describeWall } from "../../domain/sandbox/sandbox.ts";
import { withSandboxes } from "../builds/sandboxes.ts";
import type { Context } from "../context.ts";
import { exit as exits } from "../output/exit-codes.ts";
import { bytesText, duration, oneLine, table } from "../output/format.ts";

/** `sandbox ls`: lists every sandbox of the data directory or the server. */
export function sandboxList(context: Context): Promise<number> {
  return withSandboxes(context, async (all) => {
    const { sandboxes, warnings } = await all.list();
    for (const warning of warnings) context.warn(warning);
    if (context.json) context.out.json({ sandboxes });
    else if (sandboxes.length === 0) context.out.line("no sandboxes");
    else for (const line of table([heads, ...sandboxes.map((row) => cells(row, Date.now()))])) context.out.line(line);
    return exits.ok;
  });
}

const heads = ["PROJECT", "SANDBOX", "DRIVER", "WALL", "STATE", "AGE", "IDLE", "CPU", "MEMORY", "DISK"];

function cells(row: ListedSandbox, now: number): string[] {
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

/** `sandbox start PROJECT`: starts the sandbox, again if its volume was kept. */
export function sandboxStart(context: Context, name: string): Promise<number> {
  return withSandboxes(context, async (all) => {
    const { workspaceRoot, ...sandbox } = await all.start(name);
    const text = `the sandbox of ${name} is running (${sandbox.driver}, its volume is ${workspaceRoot} inside)`;
    return printState(context, sandbox, text);
  });
}

/** `sandbox stop PROJECT`: stops the sandbox and keeps its volume. */
export function sandboxStop(context: Context, name: string): Promise<number> {
  return withSandboxes(context, async (all) =>
    printState(context, await all.stop(name), `the sandbox of ${name} is stopped; its next use starts it again`),
  );
}

/** `sandbox rm PROJECT [--volume]`: removes the sandbox; its volume stays unless asked. */
export function sandboxRemove(context: Context, name: string, options: { volume: boolean }): Promise<number> {
  return withSandboxes(context, async (all) => {
    const rest = options.volume ? "with its volume; the repository stays" : "and its volume kept (--volume removes it)";
    return printState(context, await all.remove(name, options), `the sandbox of ${name} was removed, ${rest}`);
  });
}

/** Reports the new state, in the words of `sandbox ls`, and returns the exit code. */
function printState({ out, json }: Context, sandbox: SandboxView, text: string): number {
  if (json) out.json(sandbox);
  else out.line(text);
  return exits.ok;
}
