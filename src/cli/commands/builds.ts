import { sumFromJson } from "../../api/spending.ts";
import { roomRemedy } from "../../domain/sandbox/sandbox.ts";
import { withBuilds } from "../builds/open.ts";
import type { BuildList } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, duration, shortSha, table } from "../output/format.ts";
import { briefText } from "../view/plan-lines.ts";
import { sumText } from "../view/spending.ts";

const most = 50;

/** `builds`: lists the latest builds, newest first, and says if there are older ones. */
export function listBuilds(context: Context): Promise<number> {
  return withBuilds(context, "builds", async (all) => {
    const list = await all.list(context.options.project, most);
    if (context.json) context.out.json(list);
    else print(context, all.place, list);
    return exit.ok;
  });
}

function print({ out, hints }: Context, place: string, { builds: rows, more, spent }: BuildList): void {
  if (rows.length === 0) out.line(`no builds yet in ${place}; start with: ${hints.command("build PLAN")}`);
  const now = new Date();
  for (const line of table(rows.map((row) => cells(row, now)))) out.line(line);
  for (const { id, waitsForSandbox } of rows) {
    if (waitsForSandbox === null) continue;
    out.note(`${id} is waiting for a free sandbox slot: ${waitsForSandbox.reason}; ${roomRemedy}`);
  }
  if (spent.tokens > 0) out.note(`total spent on models: ${sumText(sumFromJson(spent))}`);
  if (more) out.note(`showing the latest ${most}; for an older one, give its id: ${hints.command("status BUILD")}`);
}

function cells(row: BuildList["builds"][number], now: Date): string[] {
  const { id, project, status, waitsForSandbox, tasks, brief, head, spent, createdAt, startedAt, endedAt } = row;
  return [
    id,
    project,
    waitsForSandbox === null ? status : `${status}, waiting for a slot`,
    count(tasks, "task"),
    startedAt === null || endedAt === null ? "" : duration(Date.parse(endedAt) - Date.parse(startedAt)),
    ago(new Date(createdAt), now),
    head === null ? "" : shortSha(head),
    spent.tokens === 0 ? "" : sumText(sumFromJson(spent)),
    brief === null ? "" : briefText(brief),
  ];
}
