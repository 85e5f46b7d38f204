// A plan with faults is still looked through to its end: these read what may have any shape.

/** The value as a mapping; an empty one when it is none. */
export function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** The value as a list; an empty one when it is none. */
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export const asText = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** An own key's value: never something inherited, whatever the key is called. */
export const own = (record: Readonly<Record<string, unknown>>, key: string): unknown =>
  Object.hasOwn(record, key) ? record[key] : undefined;

export interface LooseTask {
  readonly index: number;
  /** Null when it is missing or no text. */
  readonly id: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The tasks that are mappings at least. */
export function looseTasks(plan: unknown): LooseTask[] {
  return asList(asRecord(plan).tasks).flatMap((task, index) => {
    if (typeof task !== "object" || task === null || Array.isArray(task)) return [];
    const fields = asRecord(task);
    return [{ index, id: asText(fields.id), fields }];
  });
}
