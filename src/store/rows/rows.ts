import { and, desc, eq, getTableColumns, getTableName, gt, isNull, lt, type SQL, sql } from "drizzle-orm";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import { WavesmithError } from "../../domain/errors.ts";
import type { Readable, StoreSession } from "../connection/session.ts";
import type { Rows, Where } from "../port.ts";
import { columnValue, columnValues } from "./columns.ts";
import type { KeptColumn } from "./kept-column.ts";

type Columns = Readonly<Record<string, PgColumn>>;
type Order<Row> = NonNullable<Parameters<Rows<Row, never>["list"]>[1]>;

/** A column left out of most reads, and whether what is read through this handle may be kept. */
export interface KeptRows {
  readonly column: KeptColumn;
  readonly mayKeep: boolean;
}

export interface LockableRows<Row, Insert> extends Rows<Row, Insert> {
  /** `get` that locks the row until the transaction ends. */
  lock(where: Where<Row>): Promise<Row>;
  /** Adds the kept column to a row that another query read without it. */
  complete(row: object): Promise<Row>;
}

/** The rows of one table through a pool or a transaction's client. */
export function rowsOf<Row extends object, Insert extends object>(
  session: StoreSession,
  table: PgTable,
  keeping: KeptRows | null = null,
): LockableRows<Row, Insert> {
  const { all, select, insert, update, remove } = queriesOf<Row>(session, table);
  const light = keeping === null ? all : omitted(all, keeping.column.name);

  const list: Rows<Row, Insert>["list"] = async (where, order) => {
    const found = completed(await select(light, where, order), keeping);
    if (found !== null) return found;
    const rows = await select(all, where, order);
    if (keeping?.mayKeep) for (const row of rows) keepValue(row, keeping.column);
    return rows;
  };
  const find: Rows<Row, Insert>["find"] = async (where, order) =>
    (await list(where, order === undefined ? undefined : { ...order, limit: 1 }))[0] ?? null;
  const present = (row: Row | null | undefined, where: Where<Row>): Row => {
    if (row != null) return row;
    throw new WavesmithError("not-found", `there is no row in ${getTableName(table)} with ${JSON.stringify(where)}`);
  };
  const get = async (where: Where<Row>): Promise<Row> => present(await find(where), where);
  return {
    list,
    find,
    get,
    pick: (where, keys, order) => select(pickedOf(all, keys), where, order),
    async lock(where) {
      const rows = await select(light, where, undefined, true);
      return present((completed(rows, keeping) ?? (await select(all, where)))[0], where);
    },
    complete: async (row) => completed([row as Row], keeping)?.[0] ?? get(sameIds([row])),
    insert: async (row) => present((await insert(row, { ifAbsent: false }))[0], {}),
    insertIfAbsent: async (row) => (await insert(row, { ifAbsent: true }))[0] ?? null,
    async insertMany(rows) {
      // Postgres takes at most 65,535 parameters a statement.
      for (let start = 0; start < rows.length; start += 1000)
        await session.once((db) => db.insert(table).values([...rows.slice(start, start + 1000)]));
    },
    async update(where, patch) {
      const read = keeping !== null && keeping.column.name in patch ? all : light;
      const rows = await update(read, where, patch);
      // Rows without the kept value are read again: they are locked to the end of the transaction,
      // or else as they are a moment later.
      return read === all ? rows : (completed(rows, keeping) ?? list(sameIds(rows)));
    },
    remove,
  };
}

type BuildRead = (db: NodePgDatabase) => Readable;

/** The prepared queries on one table. Each reads the columns it is given. */
function queriesOf<Row extends object>(session: StoreSession, table: PgTable) {
  const name = getTableName(table);
  const all: Columns = getTableColumns(table);
  const read = async (shape: unknown[], build: BuildRead, columns: Columns, values: object): Promise<Row[]> =>
    (await session.read(JSON.stringify([name, ...shape]), build, columns, { ...values })) as Row[];
  return {
    all,
    select(columns: Columns, where: Where<Row>, order?: Order<Row>, lock = false): Promise<Row[]> {
      const { by, descending = false, limit, after } = order ?? {};
      const bounds = [limit === undefined, after === undefined];
      const shape = ["select", Object.keys(columns), shapeOf(where), by, descending, bounds, lock];
      const build: BuildRead = (db) => {
        const conditions = and(conditionOf(all, where), beyondOf(all, order));
        let query = db.select(columns).from(table).where(conditions).$dynamic();
        if (by !== undefined) query = query.orderBy(descending ? desc(columnOf(all, by)) : columnOf(all, by));
        if (limit !== undefined) query = query.limit(sql.placeholder("limit"));
        return lock ? query.for("update") : query;
      };
      return read(shape, build, columns, { ...valuesOf("where", where), limit, after });
    },
    insert(row: object, { ifAbsent }: { ifAbsent: boolean }): Promise<Row[]> {
      const build: BuildRead = (db) => {
        const query = db.insert(table).values(placeholdersOf(all, row));
        return (ifAbsent ? query.onConflictDoNothing() : query).returning();
      };
      return read(["insert", keysOf(row), ifAbsent], build, all, valuesOf("set", row));
    },
    update(columns: Columns, where: Where<Row>, patch: object): Promise<Row[]> {
      const build: BuildRead = (db) =>
        db.update(table).set(placeholdersOf(all, patch)).where(conditionOf(all, where)).returning(columns);
      const shape = ["update", Object.keys(columns), keysOf(patch), shapeOf(where)];
      return read(shape, build, columns, { ...valuesOf("set", patch), ...valuesOf("where", where) });
    },
    async remove(where: Where<Row>): Promise<number> {
      const shape = JSON.stringify([name, "delete", shapeOf(where)]);
      const build = (db: NodePgDatabase) => db.delete(table).where(conditionOf(all, where)).$dynamic();
      return (await session.run(shape, build, valuesOf("where", where))).rowCount ?? 0;
    },
  };
}

const pickedOf = (columns: Columns, keys: readonly string[]): Columns =>
  Object.fromEntries(keys.map((key) => [key, columnOf(columns, key)]));

const omitted = (columns: Columns, name: string): Columns =>
  Object.fromEntries(Object.entries(columns).filter(([key]) => key !== name));

function columnOf(columns: Columns, key: string): PgColumn {
  const column = columns[key];
  if (column === undefined) throw new WavesmithError("internal", `there is no column ${key}`);
  return column;
}

const given = (row: object): [string, unknown][] => Object.entries(row).filter(([, value]) => value !== undefined);

const keysOf = (row: object): string[] => given(row).map(([key]) => key);

/** Which columns are compared, and how: all that the SQL of a condition depends on. */
const shapeOf = (where: object): string[] =>
  given(where).map(([key, value]) => (value === null ? `${key}?` : Array.isArray(value) ? `${key}*` : key));

/** The values of a query's placeholders, each under its column's name. */
const valuesOf = (use: "where" | "set", row: object): Record<string, unknown> =>
  Object.fromEntries(given(row).map(([key, value]) => [`${use} ${key}`, value]));

const placeholdersOf = (columns: Columns, row: object): Record<string, SQL> =>
  Object.fromEntries(keysOf(row).map((key) => [key, columnValue(columnOf(columns, key), `set ${key}`)]));

function conditionOf(columns: Columns, where: object): SQL | undefined {
  const parts = given(where).map(([key, value]) => {
    const column = columnOf(columns, key);
    if (value === null) return isNull(column);
    if (Array.isArray(value)) return sql`${column} = any(${columnValues(column, `where ${key}`)})`;
    return eq(column, columnValue(column, `where ${key}`));
  });
  return and(...parts);
}

/** The rows after a value of the column by which they are ordered. */
function beyondOf<Row>(columns: Columns, order: Order<Row> | undefined): SQL | undefined {
  if (order?.after === undefined) return undefined;
  const column = columnOf(columns, order.by);
  return (order.descending === true ? lt : gt)(column, columnValue(column, "after"));
}

/** The rows of the same ids; only tables whose rows have one keep a column. */
const sameIds = (rows: readonly object[]): Where<object> => ({ id: rows.map((row) => (row as { id: string }).id) });

/** Rows with the kept value in its place; null when one of them is not kept. */
function completed<Row extends object>(rows: readonly Row[], keeping: KeptRows | null): Row[] | null {
  if (keeping === null) return [...rows];
  const { column } = keeping;
  const whole = rows.map((row) => ({ ...row, [column.name]: column.find(column.version(row)) }));
  return whole.some((row) => row[column.name as keyof Row] === undefined) ? null : whole;
}

function keepValue<Row extends object>(row: Row, column: KeptColumn): void {
  column.keep(column.version(row), row[column.name as keyof Row]);
}
