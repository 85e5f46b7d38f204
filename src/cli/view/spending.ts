import { spentByBuild } from "../../api/spending.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { Spending, SpendingSum } from "../../domain/models.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import { count } from "../output/format.ts";

// What models cost, for an attempt, task, wave or build. Calls with an unknown price never count as
// free.

const micro = 1_000_000;

/** `812`, `12.3k`, `4.56M`. */
export function tokens(number: number): string {
  if (number < 1_000) return String(number);
  // Round first: 999,960 is 1.00M, not 1000.0k.
  if (number < 999_950) return `${(number / 1_000).toFixed(1)}k`;
  return `${(number / micro).toFixed(2)}M`;
}

/** Formats a sum in cents, or with as many digits as a smaller sum needs. */
export function usd(microUsd: number): string {
  const amount = microUsd / micro;
  return amount === 0 || amount >= 0.01 ? amount.toFixed(2) : amount.toPrecision(1);
}

/** `12.3k tokens, 0.42 USD`; empty when no model was called. */
export const spentText = (spent: Spending): string =>
  spent.calls === 0 ? "" : `${sumText(spent)}${estimatedText(spent)}`;

/** How many calls are estimates, because the provider did not report their usage. */
const estimatedText = ({ estimatedCalls }: Spending): string =>
  estimatedCalls === 0 ? "" : ` (${count(estimatedCalls, "call")} estimated)`;

/** Formats spending that is not empty. */
export const sumText = (sum: SpendingSum): string => `${tokens(sum.tokens)} tokens, ${priceText(sum)}`;

function priceText({ microUsd, unpricedCalls }: SpendingSum): string {
  if (unpricedCalls === 0) return `${usd(microUsd)} USD`;
  if (microUsd === 0) return "price unknown";
  return `${usd(microUsd)} USD and ${count(unpricedCalls, "call")} of unknown price`;
}

/** Like `spendingText`, to append to other facts. */
export const andSpent = (spent: Spending): string => (spent.calls === 0 ? "" : `, ${spentText(spent)}`);

/** Like `andSpent`, for work that has ended: its open calls are those of an agent that hung up. */
export const andSpentAtEnd = (spent: Spending): string => `${andSpent(spent)}${openText(spent, "not counted yet")}`;

const openText = ({ openCalls }: Spending, state: string): string =>
  openCalls === 0 ? "" : `, ${count(openCalls, "call")} ${state}`;

/** Returns a build's spending and budget; empty if it has neither. */
export function budgetText(view: BuildView): string {
  const { tokens: mostTokens, usd: mostUsd } = view.build.plan.limits.budget;
  const spent = spentByBuild(view);
  if (spent.calls === 0 && mostTokens === null && mostUsd === null) return "";
  const ofTokens = mostTokens === null ? "" : ` of ${tokens(mostTokens)}`;
  const price = mostUsd === null ? priceText(spent) : `${usd(spent.microUsd)} of ${mostUsd.toFixed(2)} USD`;
  // A provider may still report what a call cost that was cut off at the build's end.
  const state = endedBuildStatuses.includes(view.build.status) ? "not counted yet" : "under way";
  const waiting = spent.waitingCalls === 0 ? "" : `, ${count(spent.waitingCalls, "call")} waiting for budget`;
  return `${tokens(spent.tokens)}${ofTokens} tokens, ${price}${estimatedText(spent)}${openText(spent, state)}${waiting}`;
}
