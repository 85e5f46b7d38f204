import { type Removal, removalOf } from "../../api/garbage.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { bytesText, count, table } from "../output/format.ts";
import { openApp } from "../parts.ts";
import { serverApi } from "../server/server-api.ts";

const kinds = {
  build: "build, with its output and branches",
  output: "output of a build",
  branches: "branches of a build's tasks",
  volume: "volume of an unused sandbox",
  snapshot: "snapshot",
  upload: "uploaded source",
} as const;

interface GcOptions {
  readonly dryRun: boolean;
}

/** `gc [--dry-run]`: removes what has outlived its retention settings, or shows what would go. */
export async function gc(context: Context, options: GcOptions): Promise<number> {
  const { busy, keepsBuilds, removal } = await removeGarbage(context, options);
  const { out, json } = context;
  if (json) out.json(busy ? { type: "gc", busy } : { type: "gc", ...removal });
  else if (busy) out.line("another process is removing old data or writing a backup at this moment");
  else printRemoval(context, removal, keepsBuilds);
  return exit.ok;
}

interface Outcome {
  /** Another process is removing old data. */
  readonly busy: boolean;
  /** Builds are kept for ever. */
  readonly keepsBuilds: boolean;
  readonly removal: Removal;
}

async function removeGarbage(context: Context, { dryRun }: GcOptions): Promise<Outcome> {
  const server = await serverApi(context);
  if (server !== null) {
    const { busy, keepsBuilds, bytes, items } = await server.ask(server.api.POST("/api/v1/gc", { body: { dryRun } }));
    return { busy, keepsBuilds, removal: { dryRun, bytes, items } };
  }
  const config = await context.config();
  const app = await openApp(config, context.warn);
  try {
    const garbage = dryRun ? await app.garbage.find() : await app.garbage.collect();
    const keepsBuilds = config.retention.buildsMs === null;
    return { busy: garbage === null, keepsBuilds, removal: removalOf(garbage ?? [], { dryRun }) };
  } finally {
    await app.close();
  }
}

function printRemoval({ out }: Context, { dryRun, bytes, items }: Removal, keepsBuilds: boolean): void {
  const sizeOf = (size: number | null): string => (size === null ? "?" : bytesText(size));
  for (const line of table(items.map((one) => [one.project, one.id, sizeOf(one.bytes), kinds[one.kind]])))
    out.line(line);
  const sum = `${count(items.length, "item")}, ${bytesText(bytes)}`;
  out.line(items.length === 0 ? "nothing is older than the limits" : `${dryRun ? "would remove" : "removed"} ${sum}`);
  if (keepsBuilds)
    out.note("builds are kept for ever; to limit that, set WAVESMITH_RETENTION_BUILDS, for example to 180d");
}
