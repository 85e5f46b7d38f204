import { itemAt } from "../domain/known.ts";
import type { PlanPath } from "./faults/fault-sink.ts";

// Finds the places of values in JSON. Most plans of programs are JSON without faults, and the YAML
// parser takes a hundred times as long for it as `JSON.parse`.

/** A value in a text of JSON. */
export interface JsonPlace {
  /** Where the value begins. */
  readonly at: number;
  /** Where its key begins; null for an item of a list and for the whole text. */
  readonly keyAt: number | null;
  /** The fields of an object by key; the last of repeated keys wins. */
  readonly fields: ReadonlyMap<string, JsonPlace> | null;
  readonly items: readonly JsonPlace[] | null;
}

interface Scan {
  readonly text: string;
  readonly onRepeatedKey: (path: PlanPath, key: string, at: number) => void;
  at: number;
}

/**
 * Returns the places in a text that `JSON.parse` accepts. Fails with a `RangeError` if values are
 * nested deeper than `deepest`.
 */
export function jsonPlaces(text: string, deepest: number, onRepeatedKey: Scan["onRepeatedKey"]): JsonPlace {
  const scan = { text, onRepeatedKey, at: 0 };
  return placeAt(scan, [], null, deepest);
}

function placeAt(scan: Scan, path: PlanPath, keyAt: number | null, left: number): JsonPlace {
  if (left < 0) throw new RangeError("nested too deeply");
  skipSpace(scan);
  const { at } = scan;
  const first = scan.text[at];
  if (first === "{") return { at, keyAt, fields: fieldsAt(scan, path, left), items: null };
  if (first === "[") return { at, keyAt, fields: null, items: itemsAt(scan, path, left) };
  if (first === '"') skipString(scan);
  else scan.at += scalarAt(scan.text, at).length;
  return { at, keyAt, fields: null, items: null };
}

function fieldsAt(scan: Scan, path: PlanPath, left: number): ReadonlyMap<string, JsonPlace> {
  const fields = new Map<string, JsonPlace>();
  while (!isClosed(scan, "}")) {
    const keyAt = scan.at;
    skipString(scan);
    const written = scan.text.slice(keyAt + 1, scan.at - 1);
    const key = written.includes("\\") ? (JSON.parse(`"${written}"`) as string) : written;
    const own = [...path, key];
    if (fields.has(key)) scan.onRepeatedKey(own, key, keyAt);
    skipSpace(scan);
    scan.at += 1; // the colon
    fields.set(key, placeAt(scan, own, keyAt, left - 1));
  }
  return fields;
}

function itemsAt(scan: Scan, path: PlanPath, left: number): readonly JsonPlace[] {
  const items: JsonPlace[] = [];
  while (!isClosed(scan, "]")) items.push(placeAt(scan, [...path, items.length], null, left - 1));
  return items;
}

/** Steps over the bracket or comma before the next part; says whether the end came instead. */
function isClosed(scan: Scan, end: "}" | "]"): boolean {
  skipSpace(scan);
  const isEnd = scan.text[scan.at] === end;
  scan.at += 1;
  skipSpace(scan);
  if (isEnd || scan.text[scan.at] !== end) return isEnd;
  scan.at += 1; // it is empty
  return true;
}

function skipSpace(scan: Scan): void {
  while (" \t\n\r".includes(scan.text[scan.at] ?? "x")) scan.at += 1;
}

/** Steps over a string: its end is the first quote after an even number of backslashes. */
function skipString(scan: Scan): void {
  let end = scan.text.indexOf('"', scan.at + 1);
  for (; end >= 0; end = scan.text.indexOf('"', end + 1)) {
    let before = end;
    while (scan.text[before - 1] === "\\") before -= 1;
    if ((end - before) % 2 === 0) break;
  }
  scan.at = end + 1;
}

/** Returns the number, boolean or null at a place, as it is written; empty for anything else. */
export function scalarAt(text: string, at: number): string {
  const pattern = /[\w.+-]*/y;
  pattern.lastIndex = at;
  return itemAt(pattern.exec(text) ?? [""], 0);
}

/** Follows a path as far as the text has it; `isWhole` says whether that is to its end. */
export function findJsonPlace(
  root: JsonPlace,
  path: PlanPath,
): { readonly place: JsonPlace; readonly isWhole: boolean } {
  let place = root;
  for (const step of path) {
    const next = place.items?.[Number(step)] ?? place.fields?.get(String(step));
    if (next === undefined) return { place: { ...place, keyAt: null }, isWhole: false };
    place = next;
  }
  return { place, isWhole: true };
}
