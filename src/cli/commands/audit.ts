import { type AuditEntryView, listAudit } from "../../api/audit.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, table } from "../output/format.ts";
import { openStore } from "../parts.ts";
import { serverApi } from "../server/server-api.ts";

const most = 100;

/** `audit`: lists who requested which change, newest first, in every tenant. */
export async function audit(context: Context): Promise<number> {
  const entries = await readAudit(context);
  const now = new Date();
  if (context.json) context.out.json({ entries });
  else if (entries.length === 0) context.out.line("nobody has asked for a change yet");
  else {
    const cells = entries.map(({ at, actor, via, action, target, result, tenant }) => [
      ...[ago(new Date(at), now), tenant, actor, via, action],
      ...[target ?? "", via === "api" ? `answered ${result}` : `exit ${result}`],
    ]);
    for (const line of table(cells)) context.out.line(line);
  }
  return exit.ok;
}

async function readAudit(context: Context): Promise<readonly AuditEntryView[]> {
  const server = await serverApi(context);
  if (server !== null) {
    const answer = server.api.GET("/api/v1/audit", { params: { query: { limit: most } } });
    return (await server.ask(answer)).items as AuditEntryView[];
  }
  const { store, close } = await openStore(await context.config(), "audit", context.warn);
  try {
    return await listAudit({ store }, { limit: most });
  } finally {
    await close();
  }
}
