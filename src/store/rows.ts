import { and, asc, desc, eq, getTableColumns, getTableName, inArray, isNull, type SQL } from "drizzle-orm";
import type { NodePgDatabase, NodePgQueryResultHKT } from "drizzle-orm/node-postgres";
import type { PgColumn, PgDatabase, PgTable } from "drizzle-orm/pg-core";
import { WavesmithError } from "../domain/errors.ts";
import type { KeptColumn } from "./kept-column.ts";
import type { Rows, Where } from "./port.ts";

type Order<Row> = NonNullable<Parameters<Rows<Row, never>["list"]>[1]>;

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

/** Rows with the kept value in its place; null when one of them is not kept. */
function wholeRows<Row extends object>(rows: readonly Row[], keeping: Keeping | null): Row[] | null {
  if (keeping === null) return [...rows];
  const { column } = keeping;
  const whole = rows.map((row) => ({ ...row, [column.name]: column.find(column.version(row)) }));
  return whole.some((row) => row[column.name as keyof Row] === undefined) ? null : whole;
}

function keepValues<Row extends object>(rows: readonly Row[], column: KeptColumn): void {
  for (const row of rows) column.keep(column.version(row), row[column.name as keyof Row]);
}

export interface LockableRows<Row, Insert> extends Rows<Row, Insert> {
  /** `get` that locks the row until the transaction ends. */
  lock(where: Where<Row>): Promise<Row>;
}

/** A column left out of most reads, and whether what is read through this handle may be kept. */
export interface Keeping {
  readonly column: KeptColumn;
  readonly mayKeep: boolean;
}

/** The rows of one table through a database or a transaction. */
export function rowsOf<Row extends object, Insert extends object>(
  db: Db,
  table: PgTable,
  keeping: Keeping | null = null,
): LockableRows<Row, Insert> {
  const columns = getTableColumns(table) as Record<string, PgColumn>;
  const name = getTableName(table);
  const light = Object.fromEntries(Object.entries(columns).filter(([column]) => column !== keeping?.column.name));
  const select = async (which: typeof columns, where: Where<Row>, order?: Order<Row>): Promise<Row[]> => {
    let query = db.select(which).from(table).where(condition(columns, where)).$dynamic();
    if (order !== undefined) {
      query = query.orderBy(order.descending === true ? desc(columns[order.by]!) : asc(columns[order.by]!));
      if (order.limit !== undefined) query = query.limit(order.limit);
    }
    return (await query) as Row[];
  };
  const list: Rows<Row, Insert>["list"] = async (where, order) => {
    const whole = wholeRows(await select(light, where, order), keeping);
    if (whole !== null) return whole;
    const rows = await select(columns, where, order);
    if (keeping?.mayKeep) keepValues(rows, keeping.column);
    return rows;
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
    async lock(where) {
      const rows = (await db.select(light).from(table).where(condition(columns, where)).for("update")) as Row[];
      const whole = wholeRows(rows, keeping) ?? (await select(columns, where));
      if (whole[0] === undefined)
        throw new WavesmithError("not-found", `there is no row in ${name} with ${JSON.stringify(where)}`);
      return whole[0];
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
      const changed = db
        .update(table)
        .set(storable(patch) as never)
        .where(condition(columns, where));
      if (keeping === null || keeping.column.name in patch) return (await changed.returning()) as Row[];
      const rows = (await changed.returning(light)) as Row[];
      // What is not kept yet is read: the rows are ours to the end of the transaction, or as they are a moment later.
      return wholeRows(rows, keeping) ?? list({ id: rows.map((row) => (row as { id: string }).id) } as never);
    },
    async remove(where) {
      return (await db.delete(table).where(condition(columns, where)).returning()).length;
    },
  };
}
