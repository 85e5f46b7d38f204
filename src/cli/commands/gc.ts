import { type Context, refuseServer } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { bytesText, count, table } from "../output/format.ts";
import { openApp } from "../parts.ts";

const kinds = {
  build: "build, with its output and branches",
  output: "output of a build",
  branches: "branches of a build's tasks",
  volume: "volume of an unused sandbox",
  snapshot: "snapshot",
} as const;

/** `gc [--dry-run]`: removes what has outlived its retention settings, or shows what would go. */
export async function gc(context: Context, { dryRun }: { readonly dryRun: boolean }): Promise<number> {
  await refuseServer(context);
  const config = await context.config();
  const { out, json } = context;
  const app = await openApp(config, context.warn);
  try {
    const found = dryRun ? await app.garbage.find() : await app.garbage.collect();
    if (found === null) {
      if (json) out.json({ type: "gc", busy: true });
      else out.line("another process is removing old data or writing a backup at this moment");
      return exit.ok;
    }
    const bytes = found.reduce((sum, one) => sum + (one.bytes ?? 0), 0);
    const items = found.map(({ kind, project, id, bytes: size }) => ({ kind, project, id, bytes: size }));
    if (json) out.json({ type: "gc", dryRun, bytes, items });
    else {
      const sizeOf = (size: number | null): string => (size === null ? "?" : bytesText(size));
      for (const line of table(items.map((one) => [one.project, one.id, sizeOf(one.bytes), kinds[one.kind]])))
        out.line(line);
      const sum = `${count(found.length, "item")}, ${bytesText(bytes)}`;
      out.line(
        found.length === 0 ? "nothing is older than the limits" : `${dryRun ? "would remove" : "removed"} ${sum}`,
      );
      const { buildsMs } = config.retention;
      if (buildsMs === null) out.note("builds are kept for ever; WAVESMITH_RETENTION_BUILDS=180d would limit that");
    }
    return exit.ok;
  } finally {
    await app.close();
  }
}
