import type { CallEnding } from "../../domain/models.ts";
import type { ModelCallRow, Store } from "../../store/port.ts";
import { overflowError } from "../call/relay.ts";
import type { Unfinished } from "../port.ts";

/** How many of the latest calls are looked at; agents make few at once. */
const latest = 50;

/** See `ModelLedger.unfinished`. */
export async function findUnfinished(store: Store, ownerId: string): Promise<Unfinished | null> {
  const order = { by: "startedAt", descending: true, limit: latest } as const;
  const calls = await store.modelCalls.list({ ownerId, status: ["open", "done", "failed", "cut"] }, order);
  const heard = calls.filter(({ ending }) => ending !== "left");
  const last = heard.find(({ offersTools }) => offersTools) ?? heard[0];
  if (last === undefined || last.ending === "whole") return null;
  if (last.status === "open" && last.ending === null)
    return { ending: "open", reason: "its last call to the model was not answered", overflowed: false };
  if (last.ending === null) return null;
  const ending = last.ending as Unfinished["ending"];
  return { ending, reason: reasonOf(last), overflowed: last.error === overflowError };
}

const failureText = (error: string | null, more: string): string =>
  error === overflowError ? overflowError : `the provider failed${more}`;

function reasonOf({ ending, error, httpStatus }: ModelCallRow): string {
  const more = error === null ? "" : ` (${error})`;
  const texts: Record<Exclude<CallEnding, "whole" | "left">, string> = {
    limit: "the model's last answer was cut at its output limit",
    broken: `the model's last answer broke off${more}`,
    unreadable: "the provider's last answer was not a model's answer",
    error: httpStatus === null ? `the provider could not be reached${more}` : failureText(error, more),
  };
  return texts[ending as keyof typeof texts];
}
