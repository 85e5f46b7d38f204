import type { PoolClient } from "pg";
import { WavesmithError } from "../../domain/errors.ts";
import { randomIds } from "../../domain/ids.ts";
import { listTables, quoted, type StoredTable } from "./catalog.ts";

/** Whether a database holds our rows; false if it lacks our tables. */
export async function hasRows(client: PoolClient): Promise<boolean> {
  for (const { name } of await listTables(client)) {
    const { rowCount } = await client.query(`select from ${quoted(name)} limit 1`);
    if (rowCount !== 0) return true;
  }
  return false;
}

/**
 * Inserts rows as `dump-rows` wrote them. Fails with `usage` for a table or row that does not fit.
 */
export async function loadRows(client: PoolClient, table: StoredTable, text: string): Promise<void> {
  const rows = text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as (string | null)[]]));
  if (rows.some((row) => !Array.isArray(row) || row.length !== table.columns.length))
    throw new WavesmithError("usage", `the backup's rows of ${table.name} do not fit its columns`);
  const names = table.columns.map(({ name }) => quoted(name)).join(", ");
  const values = table.columns.map(({ type }, at) => `c${at}::${type}`).join(", ");
  const lists = table.columns.map((_, at) => `$${at + 1}::text[]`).join(", ");
  const columns = table.columns.map((_, at) => `c${at}`).join(", ");
  await client.query(
    `insert into ${quoted(table.name)} (${names}) overriding system value
     select ${values} from unnest(${lists}) as given(${columns})`,
    table.columns.map((_, at) => rows.map((row) => row[at] ?? null)),
  );
}

/**
 * Turns loaded rows into those of a new installation: nothing runs yet, and nobody holds a lease.
 * Builds that were running continue as after a crash, with new sandboxes.
 */
export async function finishLoad(client: PoolClient): Promise<void> {
  await setSequences(client);
  const reason = "restored from a backup";
  const state = "('wanted', 'running', 'stopped')";
  await client.query(`update sandboxes set state = 'lost', reason = $1 where state in ${state}`, [reason]);
  await client.query("update snapshots set state = 'removed' where state in ('writing', 'kept')");
  await client.query(
    "update previews set status = 'asleep', sandbox_id = null, reason = $1 where status in ('starting', 'ready')",
    [reason],
  );
  await client.query("update jobs set lease_owner = null, lease_until = null where lease_owner is not null");
  await client.query("update engine.jobs set holder = null, lease_until = null where holder is not null");
  // Containers and volumes carry the installation's id, and those of the original are not ours.
  await client.query("update installations set id = $1, data_dir_id = null, data_dir_path = null", [
    randomIds("installation"),
  ]);
}

async function setSequences(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string; sequence: string }>(`
    select n.nspname || '.' || c.relname as table, a.attname as column,
      pg_get_serial_sequence(quote_ident(n.nspname) || '.' || quote_ident(c.relname), a.attname) as sequence
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname in ('public', 'engine') and a.attnum > 0 and not a.attisdropped
      and pg_get_serial_sequence(quote_ident(n.nspname) || '.' || quote_ident(c.relname), a.attname) is not null`);
  for (const { table, column, sequence } of rows)
    await client.query(
      `select setval($1::regclass, coalesce(max(${quoted(column)}), 0) + 1, false) from ${quoted(table)}`,
      [sequence],
    );
}
