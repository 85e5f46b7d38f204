import type { z } from "zod";
import { messageOf, WavesmithError } from "./errors.ts";
import { schemaWording } from "./schema-wording.ts";

/** Parses the body of a request. Fails with `usage`. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new WavesmithError("usage", `the body is not JSON: ${messageOf(error)}`);
  }
}

interface Naming {
  /** What the value is called in messages: `the body`. */
  readonly where: string;
  /** What the list of faults begins with, if it needs to be said: `the form is wrong: `. */
  readonly intro?: string;
  readonly remedy: string;
}

const mostFaults = 20;
const deepest = 200;
/** Postgres stores neither NUL nor half a character. */
const unstorable = /\0|\p{Cs}/u;

/**
 * Checks a value from outside that is to be stored as it is. Fails with `usage`, naming everything
 * that is wrong.
 */
export function checkInput<Schema extends z.ZodType>(schema: Schema, value: unknown, naming: Naming): z.infer<Schema> {
  const { where } = naming;
  if (typeof value === "object" && value !== null && Object.hasOwn(value, "__proto__"))
    throw new WavesmithError("usage", `${where} has the key __proto__`);
  const fault = faultIn(value, where);
  if (fault !== null) throw new WavesmithError("usage", fault);
  return matchSchema(schema, value, naming);
}

/** `checkInput` for a value that may hold any text. */
export function matchSchema<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  { where, intro = "", remedy }: Naming,
): z.infer<Schema> {
  const parsed = schema.safeParse(value, { error: schemaWording });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ code, path, message }) =>
    // The words of our own check of a whole value are a sentence.
    code === "custom" && path.length === 0 ? message : `${path.join(".") || where} ${message}`,
  );
  throw new WavesmithError("usage", `${intro}${faults.slice(0, mostFaults).join("; ")}`, { remedy });
}

interface Place {
  readonly value: unknown;
  readonly key: string;
  /** Null for the whole value. */
  readonly inside: Place | null;
}

/** Walks without recursion, because a body of 4 MB can nest two million levels deep. */
function faultIn(whole: unknown, where: string): string | null {
  let level: Place[] = [{ value: whole, key: "", inside: null }];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > deepest) return `${where} is nested more than ${deepest} levels deep`;
    const next: Place[] = [];
    for (const place of level) {
      const { value } = place;
      if (typeof value === "string" && unstorable.test(value))
        return `${pathOf(place) || where} contains a NUL or half a character`;
      if (typeof value !== "object" || value === null) continue;
      for (const [key, inner] of Object.entries(value)) {
        if (unstorable.test(key)) return `a key in ${pathOf(place) || where} contains a NUL or half a character`;
        next.push({ value: inner, key, inside: place });
      }
    }
    level = next;
  }
  return null;
}

function pathOf({ key, inside }: Place): string {
  if (inside === null) return "";
  const outer = pathOf(inside);
  return outer === "" ? key : `${outer}.${key}`;
}
