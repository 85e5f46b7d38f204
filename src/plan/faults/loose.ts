// We check a faulty plan to the end, so these functions accept values of any shape.

/** Returns the value as a mapping; an empty one when it is something else. */
export function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** Returns the value as a list; an empty one when it is something else. */
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export const asText = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** Returns an own key's value, never an inherited one. */
export const own = (record: Readonly<Record<string, unknown>>, key: string): unknown =>
  Object.hasOwn(record, key) ? record[key] : undefined;

export interface LooseTask {
  readonly index: number;
  /** Null when the id is missing or not text. */
  readonly id: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Returns the tasks that are mappings. */
export function looseTasks(plan: unknown): LooseTask[] {
  return asList(asRecord(plan).tasks).flatMap((task, index) => {
    if (typeof task !== "object" || task === null || Array.isArray(task)) return [];
    const fields = asRecord(task);
    return [{ index, id: asText(fields.id), fields }];
  });
}
