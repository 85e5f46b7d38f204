import { type Caller, type Scope, scopesWithin } from "../../domain/access.ts";
import { problem } from "../problem.ts";

/** Refuses a caller whose key lacks a scope; null if it has it. */
export function refuseScope({ scope, name }: Pick<Caller, "scope" | "name">, needed: Scope): Response | null {
  if (scopesWithin(scope).includes(needed)) return null;
  return problem(403, "forbidden", `the key "${name}" may only ${scope}`, `use a key with the scope ${needed}`);
}
