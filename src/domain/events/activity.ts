import { z } from "zod";

// The actions that an agent reports, in one form for every agent. Texts are data (W12): they may
// come from a model, a tool or a repository.

const maxTextLength = 2_000;
const maxEntries = 50;

/** How many activities of one job become events; the log has all of them. */
export const maxActivities = 1_000;

const text = z.string().max(maxTextLength);

export const activitySchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("message"), text }),
  z.object({ kind: z.literal("plan"), entries: z.array(z.object({ text, status: text })).max(maxEntries) }),
  z.object({
    kind: z.literal("tool"),
    /** The same for all reports on one call. */
    id: text,
    title: text,
    /** Its input in one line; null if the title says it. */
    input: text.nullable(),
    /** read, edit, delete, move, search, execute, think, fetch or other */
    action: text,
    /** pending, in_progress, completed or failed */
    status: text,
    paths: z.array(text).max(maxEntries),
  }),
  z.object({ kind: z.literal("edit"), path: text, added: z.number(), removed: z.number() }),
  z.object({ kind: z.literal("permission"), title: text, action: text, allowed: z.boolean(), reason: text }),
  z.object({ kind: z.literal("notice"), text }),
]);
export type Activity = z.infer<typeof activitySchema>;

/** Cuts texts and lists that are longer than an activity may have. */
export function boundActivity(activity: Activity): Activity {
  const bounded = (value: unknown): unknown => {
    if (typeof value === "string") return value.slice(0, maxTextLength);
    if (Array.isArray(value)) return value.slice(0, maxEntries).map(bounded);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, bounded(inner)]));
  };
  return bounded(activity) as Activity;
}
