import { WavesmithError } from "../../domain/errors.ts";

/** Returns a concurrency key's value for an event. */
export type KeyExpression = (event: { readonly data: unknown }) => string;

const term = /^(?:event\.data((?:\.[A-Za-z_]\w*)+)|'([^'\\]*)'|"([^"\\]*)")$/;

/**
 * Compiles the part of CEL that concurrency keys need: `event.data.a.b` paths, string literals, and
 * `+` between them. A missing path has the value null. Throws for anything else, naming the
 * expression and its place.
 */
export function compileKey(expression: string, place: string): KeyExpression {
  const terms = splitTerms(expression).map((text) => compileTerm(text, expression, place));
  const [only] = terms;
  if (terms.length === 1 && only !== undefined) return (event) => JSON.stringify(only(event) ?? null);
  return (event) => JSON.stringify(terms.map((value) => plain(value(event))).join(""));
}

type Term = (event: { readonly data: unknown }) => unknown;

/** Splits at `+`, except inside quotes. */
function splitTerms(expression: string): string[] {
  return expression.split(/\+(?=(?:[^'"]|'[^']*'|"[^"]*")*$)/).map((text) => text.trim());
}

function compileTerm(text: string, expression: string, place: string): Term {
  const match = term.exec(text);
  if (match === null) {
    throw new WavesmithError("unsupported", `${place} has the expression ${JSON.stringify(expression)}`, {
      remedy:
        "the embedded engine evaluates event.data.… paths, string literals and + only; use --engine inngest for more",
    });
  }
  const [, path, single, double] = match;
  if (path === undefined) return () => single ?? double;
  const names = path.slice(1).split(".");
  return (event) => names.reduce<unknown>(member, event.data);
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}

const plain = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value ?? null));
