import type { PoolClient } from "pg";
import { quoted } from "./catalog.ts";

interface Reference {
  readonly from: string;
  readonly column: string;
  readonly to: string;
  readonly toColumn: string;
}

/**
 * Removes an ended build with every row that refers to it, directly or through others, and with its
 * events. The caller holds the lock on its row.
 */
export async function removeBuildRows(client: PoolClient, buildId: string): Promise<void> {
  const { rows: references } = await client.query<Reference>(`
    select fn.nspname || '.' || f.relname as from, fa.attname as column,
      tn.nspname || '.' || t.relname as to, ta.attname as "toColumn"
    from pg_constraint k
      join pg_class f on f.oid = k.conrelid join pg_namespace fn on fn.oid = f.relnamespace
      join pg_class t on t.oid = k.confrelid join pg_namespace tn on tn.oid = t.relnamespace
      join pg_attribute fa on fa.attrelid = f.oid and fa.attnum = k.conkey[1]
      join pg_attribute ta on ta.attrelid = t.oid and ta.attnum = k.confkey[1]
    where k.contype = 'f' and k.conrelid <> k.confrelid and array_length(k.conkey, 1) = 1 and fn.nspname = 'public'`);
  const remove = async (table: string, condition: string): Promise<void> => {
    for (const { from, column, toColumn } of references.filter(({ to }) => to === table))
      await remove(from, `${quoted(column)} in (select ${quoted(toColumn)} from ${quoted(table)} where ${condition})`);
    await client.query(`delete from ${quoted(table)} where ${condition}`, [buildId]);
  };
  await client.query("delete from outbox where build_id = $1", [buildId]);
  await remove("public.builds", "id = $1");
}
