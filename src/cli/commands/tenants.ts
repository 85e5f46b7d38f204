import { limitTenant, listTenants, type TenantView } from "../../api/tenants.ts";
import type { TenantLimits } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { table } from "../output/format.ts";
import { openStore } from "../parts.ts";
import { recordCommand } from "../request/record-command.ts";
import { serverApi } from "../server/server-api.ts";

const names = ["builds", "tasks", "sandboxes", "usd"] as const;
export type LimitTexts = { readonly [Name in keyof TenantLimits]?: string };

/** `tenants`: lists the tenants with what they use of their limits. */
export async function printTenants(context: Context): Promise<number> {
  const server = await serverApi(context);
  const views =
    server === null
      ? await withTenants(context, listTenants)
      : ((await server.ask(server.api.GET("/api/v1/tenants"))).items as unknown as TenantView[]);
  if (context.json) context.out.json({ tenants: views });
  else for (const line of table(views.map(cells))) context.out.line(line);
  return exit.ok;
}

/** `tenants limit NAME`: sets limits of a tenant. */
export async function setTenantLimits(context: Context, name: string, texts: LimitTexts): Promise<number> {
  const given = names.flatMap((limit) => {
    const text = texts[limit];
    return text === undefined ? [] : [[limit, amountIn(limit, text)]];
  });
  if (given.length === 0) {
    throw new WavesmithError("usage", "no limit is given", {
      remedy: `such as: wavesmith tenants limit ${name} --tasks 4 --usd 50 --builds none --sandboxes default`,
    });
  }
  const view = await changeLimits(context, name, Object.fromEntries(given));
  if (context.json) context.out.json(view);
  else for (const line of table([cells(view)])) context.out.line(line);
  return exit.ok;
}

async function changeLimits(context: Context, name: string, change: Change): Promise<TenantView> {
  const server = await serverApi(context);
  if (server !== null) {
    const params = { path: { id: name } };
    const answer = server.api.PUT("/api/v1/tenants/{id}/limits", { params, body: change });
    return (await server.ask(answer)) as unknown as TenantView;
  }
  return withTenants(context, async (ports) => {
    const view = await limitTenant(ports, name, change);
    await recordCommand(ports.store, { action: "tenants limit", target: name, result: exit.ok });
    return view;
  });
}

type Ports = Parameters<typeof listTenants>[0];
type Change = { readonly [Name in keyof TenantLimits]?: number | null | "default" };

async function withTenants<Result>(context: Context, work: (ports: Ports) => Promise<Result>): Promise<Result> {
  const config = await context.config();
  const { store, close } = await openStore(config, "tenants", context.warn);
  try {
    return await work({ store, tenantLimits: config.tenantLimits });
  } finally {
    await close();
  }
}

function cells({ name, limits, own, use }: TenantView): string[] {
  const cell = (limit: keyof TenantLimits): string => {
    const most = limits[limit];
    const used = limit === "usd" ? use.usd.toFixed(2) : String(use[limit]);
    const what = limit === "usd" ? "USD" : limit;
    const set = own.includes(limit) ? "" : " (default)";
    return most === null ? `${used} ${what}, no limit${set}` : `${used} of ${most} ${what}${set}`;
  };
  return [name, ...names.map(cell)];
}

function amountIn(limit: keyof TenantLimits, text: string): number | null | "default" {
  if (text === "none") return null;
  if (text === "default") return "default";
  const isAmount = limit === "usd" ? /^\d{1,7}(\.\d{1,2})?$/.test(text) : /^\d{1,4}$/.test(text);
  if (isAmount) return Number(text);
  const kind = limit === "usd" ? "an amount such as 12.50" : "a number up to 9999";
  throw new WavesmithError("usage", `--${limit} ${text} is not a limit`, { remedy: `use ${kind}, none or default` });
}
