import type { ClientBase } from "pg";

/** One of our tables, with its stored columns in the table's order. */
export interface StoredTable {
  /** `schema.name`, of lower-case letters, digits and underscores. */
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Names of tables to which its rows refer. */
  readonly refersTo: readonly string[];
}

/**
 * Lists the tables of a migrated database, each after those to which it refers. The migrations' own
 * table is left out.
 */
export async function listTables(client: ClientBase): Promise<StoredTable[]> {
  const { rows } = await client.query<{ name: string; columns: StoredTable["columns"]; refers: string[] }>(`
    select n.nspname || '.' || c.relname as name,
      (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
          order by a.attnum)
        from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
      array(select distinct rn.nspname || '.' || r.relname
        from pg_constraint k join pg_class r on r.oid = k.confrelid join pg_namespace rn on rn.oid = r.relnamespace
        where k.conrelid = c.oid and k.contype = 'f' and k.confrelid <> c.oid) as refers
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname in ('public', 'engine')
    order by 1`);
  return inOrder(rows.map(({ name, columns, refers }) => ({ name, columns, refersTo: refers })));
}

function inOrder(tables: readonly StoredTable[]): StoredTable[] {
  const ordered: StoredTable[] = [];
  let left = tables;
  while (left.length > 0) {
    const names = new Set(left.map(({ name }) => name));
    const ready = left.filter(({ refersTo }) => !refersTo.some((name) => names.has(name)));
    if (ready.length === 0) throw new Error(`tables refer to each other in a circle: ${[...names].join(", ")}`);
    ordered.push(...ready);
    left = left.filter((table) => !ready.includes(table));
  }
  return ordered;
}

/** Writes a table's or column's name for SQL. */
export const quoted = (name: string): string =>
  name
    .split(".")
    .map((part) => `"${part.replaceAll('"', '""')}"`)
    .join(".");
