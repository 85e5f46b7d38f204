import { createHash } from "node:crypto";
import { Column, getTableColumns, getTableName } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import { WavesmithError } from "../domain/errors.ts";

// SQL of the plain statements on one table, from the same schema as its migrations. A build does
// some hundred statements a task, so their texts are few and each connection plans each of them
// once.

export interface Statement {
  readonly name: string;
  readonly text: string;
}

const statements = new Map<string, Statement>();

/** A statement that each connection plans once; for texts of which there are few. */
export function prepared(text: string): Statement {
  const known = statements.get(text);
  if (known !== undefined) return known;
  const statement = { name: `store_${createHash("sha256").update(text).digest("hex").slice(0, 16)}`, text };
  statements.set(text, statement);
  return statement;
}

/** Values of a statement, numbered as they come. */
export interface Values {
  readonly list: unknown[];
  /** Its place in the text, such as `$3`. */
  add(value: unknown): string;
}

export function createValues(): Values {
  const list: unknown[] = [];
  return { list, add: (value) => `$${list.push(value)}` };
}

/** A table's columns, as they are written in SQL and as they are read from an answer. */
export interface TableShape {
  readonly name: string;
  readonly quoted: string;
  readonly columns: ReadonlyMap<string, ColumnShape>;
}

export interface ColumnShape {
  /** In the rows that this code sees. */
  readonly key: string;
  readonly quoted: string;
  toDriver(value: unknown): unknown;
  /** Null: as the driver gives it. */
  readonly fromDriver: ((value: unknown) => unknown) | null;
}

export function shapeOf(table: PgTable): TableShape {
  const name = getTableName(table);
  const columns = Object.entries(getTableColumns(table)).map(
    ([key, column]) => [key, columnShape(key, column)] as const,
  );
  return { name, quoted: quoted(name), columns: new Map(columns) };
}

export function columnOf(shape: TableShape, key: string): ColumnShape {
  const column = shape.columns.get(key);
  if (column === undefined) throw new WavesmithError("internal", `no column ${key} in ${shape.name}`);
  return column;
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

function columnShape(key: string, column: PgColumn): ColumnShape {
  const isJson = column.dataType === "json";
  const asItCame = isJson || column.mapFromDriverValue === Column.prototype.mapFromDriverValue;
  return {
    key,
    quoted: quoted(column.name),
    toDriver: (value) => (value == null ? null : isJson ? storableJson(value) : storableScalar(column, value)),
    fromDriver: asItCame ? null : (value) => column.mapFromDriverValue(value),
  };
}

/**
 * Postgres stores neither NUL nor half a character, and what agents and tools print may hold both.
 */
const unstorable = /[\0\p{Surrogate}]/gu;

function storableScalar(column: PgColumn, value: unknown): unknown {
  return column.mapToDriverValue(typeof value === "string" ? value.replace(unstorable, "\ufffd") : value);
}

/** JSON writes both as escapes, so most values need no second look. */
function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  return /\\u(?:0000|d[89a-f])/.test(text) ? JSON.stringify(storable(value)) : text;
}

function storable(value: unknown): unknown {
  if (typeof value === "string") return value.replace(unstorable, "\ufffd");
  if (Array.isArray(value)) return value.map(storable);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, storable(inner)]));
}

/** `where …`, or nothing: equality on each column, "one of" for a list, "is null" for null. */
export function whereText(shape: TableShape, where: object, values: Values): string {
  const parts = Object.entries(where)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]: [string, unknown]) => {
      const column = columnOf(shape, key);
      if (value === null) return `${column.quoted} is null`;
      if (!Array.isArray(value)) return `${column.quoted} = ${values.add(column.toDriver(value))}`;
      return `${column.quoted} = any(${values.add(value.map((one) => column.toDriver(one)))})`;
    });
  return parts.length === 0 ? "" : ` where ${parts.join(" and ")}`;
}

/** `set …` of the values that are given. */
export function setText(shape: TableShape, patch: object, values: Values): string {
  const parts = Object.entries(patch)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => {
      const column = columnOf(shape, key);
      return `${column.quoted} = ${values.add(column.toDriver(value))}`;
    });
  return ` set ${parts.join(", ")}`;
}

/** `(columns) values (…), (…)`; what a row does not say is its default. */
export function insertText(shape: TableShape, rows: readonly object[], values: Values): string {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = keys.map((key) => columnOf(shape, key));
  const lists = rows.map((row) => {
    const given = row as Readonly<Record<string, unknown>>;
    const parts = columns.map((column) =>
      given[column.key] === undefined ? "default" : values.add(column.toDriver(given[column.key])),
    );
    return `(${parts.join(", ")})`;
  });
  return ` (${columns.map((column) => column.quoted).join(", ")}) values ${lists.join(", ")}`;
}

/** Reads rows that came as lists of these columns' values. */
export function readRows<Row>(columns: readonly ColumnShape[], rows: readonly (readonly unknown[])[]): Row[] {
  return rows.map((values) => {
    const row: Record<string, unknown> = {};
    for (let at = 0; at < columns.length; at += 1) {
      const { key, fromDriver } = columns[at]!;
      const value = values[at] ?? null;
      row[key] = value === null || fromDriver === null ? value : fromDriver(value);
    }
    return row as Row;
  });
}
