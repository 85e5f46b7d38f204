import type { FaultSink, PlanPath } from "./fault-sink.ts";

const maxDepth = 64;

/**
 * A copy without the keys a plan may carry for itself (`x-*`). A key `__proto__` is a fault here,
 * since it gets lost further on.
 */
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
      sink.add("unknown-key", [...path, key], "The key __proto__ cannot be used: rename it.", "key");
    else cleaned[key] = cleanValue(inner, sink, [...path, key]);
  }
  return cleaned;
}
