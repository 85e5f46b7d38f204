import type { z } from "@hono/zod-openapi";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { schemaWording } from "./schema-wording.ts";

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new WavesmithError("usage", `the body is not JSON: ${messageOf(error)}`);
  }
}

const deepest = 200;
/** Postgres stores neither NUL nor half a character. */
const unstorable = /\0|\p{Cs}/u;

/** Checks a value from outside. Fails with `usage`, naming everything that is wrong. */
export function checked<Schema extends z.ZodType>(schema: Schema, value: unknown, where: string): z.infer<Schema> {
  if (typeof value === "object" && value !== null && Object.hasOwn(value, "__proto__"))
    throw new WavesmithError("usage", `${where} has the key __proto__`);
  const fault = faultIn(value);
  if (fault !== null) throw new WavesmithError("usage", `${where} ${fault}`);
  const parsed = schema.safeParse(value, { error: schemaWording });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ code, path, message }) =>
    // The words of our own check of a whole value are a sentence.
    code === "custom" && path.length === 0 ? message : `${path.join(".") || where} ${message}`,
  );
  throw new WavesmithError("usage", faults.slice(0, 20).join("; "), {
    remedy: "/openapi.json shows what each route takes",
  });
}

/** Walks without recursion, because a body of 4 MB can nest two million levels deep. */
function faultIn(value: unknown): string | null {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > deepest) return `is nested more than ${deepest} levels deep`;
    const next: unknown[] = [];
    for (const one of level) {
      if (typeof one === "string" && unstorable.test(one)) return "contains a NUL or half a character";
      if (typeof one !== "object" || one === null) continue;
      for (const [key, inner] of Object.entries(one)) next.push(key, inner);
    }
    level = next;
  }
  return null;
}
