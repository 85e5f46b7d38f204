import type { PgTable } from "drizzle-orm/pg-core";
import type { Pool, PoolClient } from "pg";
import { WavesmithError } from "../domain/errors.ts";
import type { KeptColumn } from "./kept-column.ts";
import type { Input, Rows, Where } from "./port.ts";
import {
  type ColumnShape,
  columnOf,
  createValues,
  insertText,
  prepared,
  readRows,
  setText,
  shapeOf,
  type Values,
  whereText,
} from "./statements.ts";

type Order<Row> = NonNullable<Parameters<Rows<Row, never>["list"]>[1]>;

/** A pool, or the client of a transaction. */
export type Queryable = Pick<Pool | PoolClient, "query">;

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
  /** For statements on several tables: the columns to read, as those of this alias. */
  readonly joining: {
    readonly count: number;
    columns(alias: string): string;
    /** A row that was read so; null when the table has none. */
    read(values: readonly unknown[]): Promise<Row | null>;
  };
}

/** The id of a row; only tables whose rows have one leave a column out. */
const idIn = (row: object): string => (row as { readonly id: string }).id;

/** A column left out of most reads, and whether what is read through this handle may be kept. */
export interface Keeping {
  readonly column: KeptColumn;
  readonly mayKeep: boolean;
}

/** Columns to read, and the list of them in SQL. */
interface Selection {
  readonly columns: readonly ColumnShape[];
  readonly text: string;
}

const selectionOf = (columns: readonly ColumnShape[]): Selection => ({
  columns,
  text: columns.map((column) => column.quoted).join(", "),
});

/** The rows of one table through a pool or a transaction's client. */
export function rowsOf<Row extends object, Insert extends object>(
  on: Queryable,
  table: PgTable,
  keeping: Keeping | null = null,
): LockableRows<Row, Insert> {
  const shape = shapeOf(table);
  const all = [...shape.columns.values()];
  const whole = selectionOf(all);
  const light = keeping === null ? whole : selectionOf(all.filter(({ key }) => key !== keeping.column.name));

  const run = async (text: string, values: Values, read: Selection | null): Promise<Row[]> => {
    const { rows } = await on.query<unknown[]>({ ...prepared(text), values: values.list, rowMode: "array" });
    return read === null ? [] : readRows<Row>(read.columns, rows);
  };
  const select = (read: Selection, where: Where<Row>, order?: Order<Row>): Promise<Row[]> => {
    const values = createValues();
    let text = `select ${read.text} from ${shape.quoted}${whereText(shape, where, values)}`;
    if (order !== undefined) {
      text += ` order by ${columnOf(shape, order.by).quoted}${order.descending === true ? " desc" : ""}`;
      if (order.limit !== undefined) text += ` limit ${values.add(order.limit)}`;
    }
    return run(text, values, read);
  };
  const insert = (row: Input<Insert>, whenThere: string): Promise<Row[]> => {
    const values = createValues();
    const text = `insert into ${shape.quoted}${insertText(shape, [row], values)}${whenThere} returning ${whole.text}`;
    return run(text, values, whole);
  };

  const list: Rows<Row, Insert>["list"] = async (where, order) => {
    const found = wholeRows(await select(light, where, order), keeping);
    if (found !== null) return found;
    const rows = await select(whole, where, order);
    if (keeping?.mayKeep) keepValues(rows, keeping.column);
    return rows;
  };
  const pick: Rows<Row, Insert>["pick"] = async (where, keys, order) =>
    select(selectionOf(keys.map((key) => columnOf(shape, key))), where, order);
  const find: Rows<Row, Insert>["find"] = async (where, order) =>
    (await list(where, order === undefined ? undefined : { ...order, limit: 1 }))[0] ?? null;
  const missing = (where: Where<Row>) =>
    new WavesmithError("not-found", `there is no row in ${shape.name} with ${JSON.stringify(where)}`);
  return {
    list,
    pick,
    find,
    joining: {
      count: light.columns.length,
      columns: (alias) => light.columns.map((column) => `${alias}.${column.quoted}`).join(", "),
      async read(values) {
        if (values.every((value) => value === null)) return null;
        const [row] = readRows<Row>(light.columns, [values]);
        return wholeRows([row!], keeping)?.[0] ?? find({ id: idIn(row!) } as Where<object>);
      },
    },
    async get(where) {
      const row = await find(where);
      if (row === null) throw missing(where);
      return row;
    },
    async lock(where) {
      const values = createValues();
      const text = `select ${light.text} from ${shape.quoted}${whereText(shape, where, values)} for update`;
      const rows = await run(text, values, light);
      const [row] = wholeRows(rows, keeping) ?? (await select(whole, where));
      if (row === undefined) throw missing(where);
      return row;
    },
    async insert(row) {
      return (await insert(row, ""))[0]!;
    },
    async insertMany(rows) {
      // Postgres takes at most 65,535 parameters a statement.
      for (let start = 0; start < rows.length; start += 1000) {
        const values = createValues();
        const text = `insert into ${shape.quoted}${insertText(shape, rows.slice(start, start + 1000), values)}`;
        await on.query(text, values.list);
      }
    },
    async insertIfAbsent(row) {
      return (await insert(row, " on conflict do nothing"))[0] ?? null;
    },
    async update(where, patch) {
      const read = keeping === null || keeping.column.name in patch ? whole : light;
      const values = createValues();
      const set = setText(shape, patch, values);
      const text = `update ${shape.quoted}${set}${whereText(shape, where, values)} returning ${read.text}`;
      const rows = await run(text, values, read);
      if (read === whole) return rows;
      // What is not kept yet is read: the rows are ours to the end of the transaction, or as they
      // are a moment later.
      return wholeRows(rows, keeping) ?? list({ id: rows.map(idIn) } as Where<object>);
    },
    async remove(where) {
      const values = createValues();
      const text = `delete from ${shape.quoted}${whereText(shape, where, values)}`;
      return (await on.query({ ...prepared(text), values: values.list })).rowCount ?? 0;
    },
  };
}
