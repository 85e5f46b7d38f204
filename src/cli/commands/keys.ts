import { createKey, type KeyView, listKeys, revokeKey } from "../../api/keys.ts";
import { defaultTenant } from "../../coordinator/build/request/project.ts";
import { type Scope, scopes } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { randomIds } from "../../domain/ids.ts";
import { type Context, refuseServer } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, table } from "../output/format.ts";
import { openStore, type Store } from "../parts.ts";
import { recordCommand } from "../request/record-command.ts";
import { requester } from "../request/requester.ts";

interface KeyPlace {
  /** The name of the tenant; default: the default tenant. */
  readonly tenant?: string;
}

interface NewKeyOptions extends KeyPlace {
  readonly scope?: string;
  /** Such as `90d` or `12h`. */
  readonly expires?: string;
}

/** `keys list`: lists the keys of a tenant, newest first. */
export function listApiKeys(context: Context, { tenant = defaultTenant }: KeyPlace): Promise<number> {
  return withKeys(context, async (ports) => {
    const keys = await listKeys(ports, tenant);
    if (context.json) context.out.json({ keys });
    else if (keys.length === 0) context.out.line(`no keys; make one: ${context.hints.command("keys create NAME")}`);
    else for (const line of table(keys.map((key) => cells(key, ports.clock.now())))) context.out.line(line);
    return exit.ok;
  });
}

/** `keys create NAME`: makes a key and prints it, once. */
export function createApiKey(context: Context, name: string, options: NewKeyOptions): Promise<number> {
  const { tenant = defaultTenant, expires } = options;
  const scope = scopeNamed(options.scope ?? "build");
  const validMs = expires === undefined ? null : validityMs(expires);
  return withKeys(context, async (ports) => {
    const { key, view } = await createKey(ports, { tenant, name, scope, validMs, createdBy: requester() });
    await recordCommand(ports.store, { action: "keys create", target: view.id, tenant, result: exit.ok });
    if (context.json) context.out.json({ ...view, tenant, key });
    else context.out.line(key);
    context.out.note(`keep it: it will not be shown again (${view.id}, scope ${scope}, tenant ${tenant})`);
    return exit.ok;
  });
}

/** `keys revoke ID`: revokes a key and ends the sessions that it opened. */
export function revokeApiKey(context: Context, id: string, { tenant = defaultTenant }: KeyPlace): Promise<number> {
  return withKeys(context, async (ports) => {
    const view = await revokeKey(ports, tenant, id);
    await recordCommand(ports.store, { action: "keys revoke", target: id, tenant, result: exit.ok });
    if (context.json) context.out.json(view);
    else context.out.line(`revoked ${view.id} (${view.name})`);
    return exit.ok;
  });
}

interface KeyPorts {
  readonly store: Store;
  readonly clock: { now(): Date };
  readonly ids: typeof randomIds;
}

async function withKeys(context: Context, work: (ports: KeyPorts) => Promise<number>): Promise<number> {
  await refuseServer(context);
  const { store, close } = await openStore(await context.config(), "keys", context.warn);
  try {
    return await work({ store, clock: { now: () => new Date() }, ids: randomIds });
  } finally {
    await close();
  }
}

function cells({ id, name, scope, status, createdAt, expiresAt, usedAt }: KeyView, now: Date): string[] {
  const ends = expiresAt === null ? "does not expire" : `expires ${expiresAt.toISOString().slice(0, 10)}`;
  const used = usedAt === null ? "never used" : `used ${ago(usedAt, now)}`;
  return [id, name, scope, status, `created ${ago(createdAt, now)}`, ends, used];
}

function scopeNamed(text: string): Scope {
  const scope = scopes.find((one) => one === text);
  if (scope !== undefined) return scope;
  throw new WavesmithError("usage", `there is no scope ${text}`, { remedy: `use one of ${scopes.join(", ")}` });
}

function validityMs(text: string): number {
  const [, count, unit] = /^([1-9]\d{0,4})([hd])$/.exec(text) ?? [];
  if (count !== undefined) return Number(count) * (unit === "d" ? 24 : 1) * 60 * 60_000;
  throw new WavesmithError("usage", `--expires ${text} is not a time`, { remedy: "use hours or days: 12h, 90d" });
}
