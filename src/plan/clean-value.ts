import type { FaultSink, PlanPath } from "./faults/fault-sink.ts";

const maxDepth = 64;

/** Copies a value without `x-*` keys. A key `__proto__` is a fault: later steps would lose it. */
export function cleanValue(value: unknown, sink: FaultSink, path: PlanPath = []): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (path.length > maxDepth) {
    sink.add("too-large", path, `The plan is nested more than ${maxDepth} levels deep here.`);
    return null;
  }
  if (Array.isArray(value)) return value.map((item, index) => cleanValue(item, sink, [...path, index]));
  const cleaned: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    if (key.startsWith("x-")) continue;
    if (key === "__proto__")
      sink.add("unknown-key", [...path, key], "The key __proto__ is not allowed: rename it.", "key");
    else cleaned[key] = cleanValue(inner, sink, [...path, key]);
  }
  return cleaned;
}
