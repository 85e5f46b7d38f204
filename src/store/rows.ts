import { and, asc, desc, eq, getTableColumns, inArray, isNull, type SQL } from "drizzle-orm";
import type { NodePgDatabase, NodePgQueryResultHKT } from "drizzle-orm/node-postgres";
import { getTableConfig, type PgColumn, type PgDatabase, type PgTable } from "drizzle-orm/pg-core";
import { WavesmithError } from "../domain/errors.ts";
import type { Rows, Where } from "./port.ts";

export type Db = NodePgDatabase<Record<string, never>> | PgDatabase<NodePgQueryResultHKT, Record<string, never>>;

function condition(columns: Record<string, PgColumn>, where: object): SQL | undefined {
  const parts = Object.entries(where)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => {
      const column = columns[name];
      if (column === undefined) throw new WavesmithError("internal", `no column ${name}`);
      if (value === null) return isNull(column);
      return Array.isArray(value) ? inArray(column, value) : eq(column, value);
    });
  return and(...parts);
}

/** Postgres stores neither NUL nor half a character, and what agents and tools print may hold both. */
function storable<Value>(value: Value): Value {
  if (typeof value === "string") return value.replace(/[\0\p{Surrogate}]/gu, "\ufffd") as Value;
  if (Array.isArray(value)) return value.map(storable) as Value;
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, storable(inner)])) as Value;
}

/** The rows of one table through a database or a transaction. */
export function rowsOf<Row extends object, Insert extends object>(db: Db, table: PgTable): Rows<Row, Insert> {
  const columns = getTableColumns(table) as Record<string, PgColumn>;
  const name = getTableConfig(table).name;
  const list: Rows<Row, Insert>["list"] = async (where, order) => {
    let query = db.select().from(table).where(condition(columns, where)).$dynamic();
    if (order !== undefined) {
      query = query.orderBy(order.descending === true ? desc(columns[order.by]!) : asc(columns[order.by]!));
      if (order.limit !== undefined) query = query.limit(order.limit);
    }
    return (await query) as Row[];
  };
  const find: Rows<Row, Insert>["find"] = async (where, order) => (await list(where, order))[0] ?? null;
  return {
    list,
    find,
    async get(where: Where<Row>) {
      const row = await find(where);
      if (row === null)
        throw new WavesmithError("not-found", `there is no row in ${name} with ${JSON.stringify(where)}`);
      return row;
    },
    async insert(row) {
      return (
        await db
          .insert(table)
          .values(storable(row) as never)
          .returning()
      )[0] as Row;
    },
    async insertMany(rows) {
      // Postgres takes at most 65,535 parameters a statement.
      for (let start = 0; start < rows.length; start += 1000) {
        await db.insert(table).values(storable(rows.slice(start, start + 1000)) as never);
      }
    },
    async insertIfAbsent(row) {
      const inserted = await db
        .insert(table)
        .values(storable(row) as never)
        .onConflictDoNothing()
        .returning();
      return (inserted[0] as Row | undefined) ?? null;
    },
    async update(where, patch) {
      return (await db
        .update(table)
        .set(storable(patch) as never)
        .where(condition(columns, where))
        .returning()) as Row[];
    },
    async remove(where) {
      return (await db.delete(table).where(condition(columns, where)).returning()).length;
    },
  };
}
