import { Param, type SQL, sql } from "drizzle-orm";
import { customType, type PgColumn } from "drizzle-orm/pg-core";

// Columns that accept whatever agents and tools print. Postgres stores neither NUL nor half a
// surrogate pair, so both become U+FFFD.

const unstorable = /[\0\p{Surrogate}]/gu;
const replacement = "\ufffd";

export const text = customType<{ data: string; driverData: string }>({
  dataType: () => "text",
  toDriver: (value) => value.replace(unstorable, replacement),
});

/** Like drizzle's `jsonb`, which besides reads a stored string as if it were JSON. */
export const jsonb = customType<{ data: unknown; driverData: unknown }>({
  dataType: () => "jsonb",
  toDriver: storableJson,
});

/** JSON writes both as escapes, so most values are walked through only once. */
function storableJson(value: unknown): string {
  const json = JSON.stringify(value);
  return /\\u(?:0000|d[89a-f])/.test(json) ? JSON.stringify(storableValue(value)) : json;
}

function storableValue(value: unknown): unknown {
  if (typeof value === "string") return value.replace(unstorable, replacement);
  if (Array.isArray(value)) return value.map(storableValue);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, storableValue(inner)]));
}

/** A value that is given by name when its query runs, stored as this column stores it. */
export const columnValue = (column: PgColumn, name: string): SQL => placeholder(name, (value) => stored(column, value));

/** Like `columnValue`, for a list. */
export const columnValues = (column: PgColumn, name: string): SQL =>
  placeholder(name, (list) => (list as unknown[]).map((value) => stored(column, value)));

const stored = (column: PgColumn, value: unknown): unknown => (value === null ? null : column.mapToDriverValue(value));

const placeholder = (name: string, mapToDriverValue: (value: unknown) => unknown): SQL =>
  sql`${new Param(sql.placeholder(name), { mapToDriverValue })}`;
