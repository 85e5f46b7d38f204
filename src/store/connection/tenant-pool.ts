import type { ClientBase, Pool, PoolClient } from "pg";
import { WavesmithError } from "../../domain/errors.ts";

// TN1. A request's queries run as `wavesmith_tenant`, a role that row-level security applies to,
// with the tenant in the setting `wavesmith.tenant`. Its connections are in their own pool:
// the owner's queries never run on them.
// TN2. A connection keeps its tenant. The setting changes only when a request of another tenant
// takes the connection, before that request's first query.

const tenantRole = "wavesmith_tenant";

const lackingText = `
  select c.relname from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relrowsecurity
    and not coalesce(has_table_privilege((select oid from pg_roles where rolname = $1), c.oid, 'insert'), false)`;

/**
 * Makes the role and gives it rights on every table with row-level security. Does nothing if this
 * user may not make roles and nobody made it before: then only the default tenant can be used.
 */
export async function ensureTenantRole(client: ClientBase): Promise<void> {
  if (await mayBecomeTenant(client)) {
    const { rows } = await client.query<{ relname: string }>(lackingText, [tenantRole]);
    if (rows.length === 0) return;
  } else {
    // Roles are of the whole server, so another database may make it at the same time.
    await attempt(client, `create role ${tenantRole} nologin`);
    await attempt(client, `grant ${tenantRole} to current_user`);
    if (!(await mayBecomeTenant(client))) return;
  }
  const { rows } = await client.query<{ relname: string }>(lackingText, [tenantRole]);
  const tables = rows.map(({ relname }) => `"${relname}"`).join(", ");
  await client.query(`grant usage on schema public to ${tenantRole}`);
  await client.query(`grant usage on all sequences in schema public to ${tenantRole}`);
  if (tables !== "") await client.query(`grant select, insert, update, delete on ${tables} to ${tenantRole}`);
}

/** Whether the role exists and this user may become it. */
export async function mayBecomeTenant(client: ClientBase | Pool): Promise<boolean> {
  const text = "select pg_has_role(current_user, oid, 'member') as may from pg_roles where rolname = $1";
  const { rows } = await client.query<{ may: boolean }>(text, [tenantRole]);
  return rows[0]?.may === true;
}

const refused = new Set(["42501", "42710", "23505", "XX000"]);

async function attempt(client: ClientBase, statement: string): Promise<void> {
  await client.query(statement).catch((error: { code?: string }) => {
    if (!refused.has(error.code ?? "")) throw error;
  });
}

const tenants = new WeakMap<PoolClient, string>();

/** Returns a view of a pool of requests whose connections show this tenant's rows alone. */
export function poolForTenant(pool: Pool, tenantId: string): Pool {
  const connect = async (): Promise<PoolClient> => {
    const client = await pool.connect();
    if (tenants.get(client) === tenantId) return client;
    try {
      if (!tenants.has(client)) await client.query(`set role ${tenantRole}`);
      await client.query("select set_config('wavesmith.tenant', $1, false)", [tenantId]);
    } catch (error) {
      client.release(true);
      throw error;
    }
    tenants.set(client, tenantId);
    return client;
  };
  return Object.assign(Object.create(pool) as Pool, { connect });
}

/** The error for a database whose user may not become the role of tenants. */
export const tenantsNotApart = (): WavesmithError =>
  new WavesmithError("environment", "this database cannot keep tenants apart: its user may not make roles", {
    remedy: `as its administrator: create role ${tenantRole}; grant ${tenantRole} to the user of DATABASE_URL`,
  });
