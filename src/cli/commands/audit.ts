import { auditJson } from "../../api/audit.ts";
import { type Context, refuseServer } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, table } from "../output/format.ts";
import { openStore } from "../parts.ts";

const most = 100;

/** `audit`: lists who requested which change, newest first, in every tenant. */
export async function audit(context: Context): Promise<number> {
  await refuseServer(context);
  const { store, close } = await openStore(await context.config(), "audit", context.warn);
  try {
    const rows = await store.auditEntries.list({}, { by: "id", descending: true, limit: most });
    const names = new Map((await store.tenants.list({})).map(({ id, name }) => [id, name]));
    const now = new Date();
    if (context.json)
      context.out.json({ entries: rows.map((row) => ({ ...auditJson(row), tenant: names.get(row.tenantId) })) });
    else if (rows.length === 0) context.out.line("nobody has asked for a change yet");
    else {
      const cells = rows.map(({ at, actor, via, action, target, result, tenantId }) => [
        ...[ago(at, now), names.get(tenantId) ?? "", actor, via, action],
        ...[target ?? "", via === "api" ? `answered ${result}` : `exit ${result}`],
      ]);
      for (const line of table(cells)) context.out.line(line);
    }
    return exit.ok;
  } finally {
    await close();
  }
}
