import { createKey, type KeyView, listKeys, revokeKey } from "../../api/keys.ts";
import { defaultTenant } from "../../coordinator/build/request/project.ts";
import { type Scope, scopes } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { randomIds } from "../../domain/ids.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, table } from "../output/format.ts";
import { openStore, type Store } from "../parts.ts";
import { recordCommand } from "../request/record-command.ts";
import { requester } from "../request/requester.ts";
import { defined } from "../server/defined.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";

interface KeyPlace {
  /** The name of the tenant; default: the default tenant. */
  readonly tenant?: string | undefined;
}

interface NewKeyOptions extends KeyPlace {
  readonly scope?: string;
  /** Such as `90d` or `12h`. */
  readonly expires?: string;
}

/** `keys list`: lists the keys of a tenant, newest first. */
export async function listApiKeys(context: Context, { tenant }: KeyPlace): Promise<number> {
  const keys = await (await keyPlace(context)).list(tenant);
  if (context.json) context.out.json({ keys });
  else if (keys.length === 0) context.out.line(`no keys; make one: ${context.hints.command("keys create NAME")}`);
  else for (const line of table(keys.map((key) => cells(key, new Date())))) context.out.line(line);
  return exit.ok;
}

/** `keys create NAME`: makes a key and prints it, once. */
export async function createApiKey(context: Context, name: string, options: NewKeyOptions): Promise<number> {
  const scope = scopeNamed(options.scope ?? "build");
  const validHours = options.expires === undefined ? null : hoursIn(options.expires);
  const made = await (await keyPlace(context)).create({ name, scope, validHours, tenant: options.tenant });
  if (context.json) context.out.json(made);
  else context.out.line(made.key);
  context.out.note(`keep it: it will not be shown again (${made.id}, scope ${scope}, tenant ${made.tenant})`);
  return exit.ok;
}

/** `keys revoke ID`: revokes a key and ends the sessions that it opened. */
export async function revokeApiKey(context: Context, id: string, { tenant }: KeyPlace): Promise<number> {
  const view = await (await keyPlace(context)).revoke(id, tenant);
  if (context.json) context.out.json(view);
  else context.out.line(`revoked ${view.id} (${view.name})`);
  return exit.ok;
}

interface WantedKey extends KeyPlace {
  readonly name: string;
  readonly scope: Scope;
  readonly validHours: number | null;
}

interface MadeKey extends KeyView {
  readonly tenant: string;
  readonly key: string;
}

/**
 * The keys of a data directory or of a server. Without a tenant: the default, or the caller's own.
 */
interface Keys {
  list(tenant: string | undefined): Promise<readonly KeyView[]>;
  create(wanted: WantedKey): Promise<MadeKey>;
  revoke(id: string, tenant: string | undefined): Promise<KeyView>;
}

async function keyPlace(context: Context): Promise<Keys> {
  const server = await serverApi(context);
  return server === null ? directoryKeys(context) : serverKeys(server);
}

const serverKeys = ({ api, ask }: ServerApi): Keys => ({
  async list(tenant) {
    return (await ask(api.GET("/api/v1/keys", { params: { query: defined({ tenant }) } }))).items;
  },
  create({ name, scope, validHours, tenant }) {
    const expiresInHours = validHours ?? undefined;
    return ask(api.POST("/api/v1/keys", { body: { name, scope, ...defined({ tenant, expiresInHours }) } }));
  },
  revoke: (id, tenant) =>
    ask(api.DELETE("/api/v1/keys/{id}", { params: { path: { id }, query: defined({ tenant }) } })),
});

const directoryKeys = (context: Context): Keys => ({
  list: (tenant) => withKeys(context, (ports) => listKeys(ports, tenant)),
  create: ({ name, scope, validHours, tenant = defaultTenant }) =>
    withKeys(context, async (ports) => {
      const validMs = validHours === null ? null : validHours * 60 * 60_000;
      const { key, view } = await createKey(ports, { tenant, name, scope, validMs, createdBy: requester() });
      await recordCommand(ports.store, { action: "keys create", target: view.id, tenant, result: exit.ok });
      return { ...view, tenant, key };
    }),
  revoke: (id, tenant = defaultTenant) =>
    withKeys(context, async (ports) => {
      const view = await revokeKey(ports, tenant, id);
      await recordCommand(ports.store, { action: "keys revoke", target: id, tenant, result: exit.ok });
      return view;
    }),
});

interface KeyPorts {
  readonly store: Store;
  readonly clock: { now(): Date };
  readonly ids: typeof randomIds;
}

async function withKeys<Result>(context: Context, work: (ports: KeyPorts) => Promise<Result>): Promise<Result> {
  const { store, close } = await openStore(await context.config(), "keys", context.warn);
  try {
    return await work({ store, clock: { now: () => new Date() }, ids: randomIds });
  } finally {
    await close();
  }
}

function cells({ id, name, scope, status, createdAt, expiresAt, usedAt }: KeyView, now: Date): string[] {
  const ends = expiresAt === null ? "does not expire" : `expires ${expiresAt.slice(0, 10)}`;
  const used = usedAt === null ? "never used" : `used ${ago(new Date(usedAt), now)}`;
  return [id, name, scope, status, `created ${ago(new Date(createdAt), now)}`, ends, used];
}

function scopeNamed(text: string): Scope {
  const scope = scopes.find((one) => one === text);
  if (scope !== undefined) return scope;
  throw new WavesmithError("usage", `there is no scope ${text}`, { remedy: `use one of ${scopes.join(", ")}` });
}

function hoursIn(text: string): number {
  const [, count, unit] = /^([1-9]\d{0,4})([hd])$/.exec(text) ?? [];
  if (count !== undefined) return Number(count) * (unit === "d" ? 24 : 1);
  throw new WavesmithError("usage", `--expires ${text} is not a time`, { remedy: "use hours or days: 12h, 90d" });
}
