import type { BuildView, WaveView } from "../../coordinator/build/read-build.ts";
import { nothingSpent, type Spending, type SpendingSum, totalSpending } from "../../domain/models.ts";
import { count } from "../format.ts";

// What models cost, for an attempt, task, wave or build. Calls with an unknown price never count as
// free.

/** Sums what these attempts and gate runs spent. */
export const spentBy = ({ spending }: BuildView, owners: readonly { readonly id: string }[]): Spending =>
  totalSpending(owners.map(({ id }) => spending.get(id) ?? nothingSpent));

export const spentInWave = (view: BuildView, wave: WaveView): Spending =>
  spentBy(view, [...wave.attempts, ...wave.gates]);

/** Sums a task's spending over every wave, or in this one. */
export const spentByTask = (view: BuildView, taskKey: string, waves: readonly WaveView[] = view.waves): Spending =>
  spentBy(
    view,
    waves.flatMap(({ attempts }) => attempts.filter((attempt) => attempt.taskKey === taskKey)),
  );

export const spentByBuild = ({ spending }: BuildView): Spending => totalSpending([...spending.values()]);

const micro = 1_000_000;

/** `812`, `12.3k`, `4.56M`. */
export function tokens(number: number): string {
  if (number < 1_000) return String(number);
  // Round first: 999,960 is 1.00M, not 1000.0k.
  if (number < 999_950) return `${(number / 1_000).toFixed(1)}k`;
  return `${(number / micro).toFixed(2)}M`;
}

/** In cents, or with as many digits as a smaller sum needs. */
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

/** What a build spent and its budget; empty if it has neither. */
export function budgetText(view: BuildView): string {
  const { tokens: mostTokens, usd: mostUsd } = view.build.plan.limits.budget;
  const spent = spentByBuild(view);
  if (spent.calls === 0 && mostTokens === null && mostUsd === null) return "";
  const ofTokens = mostTokens === null ? "" : ` of ${tokens(mostTokens)}`;
  const price = mostUsd === null ? priceText(spent) : `${usd(spent.microUsd)} of ${mostUsd.toFixed(2)} USD`;
  const open = spent.openCalls === 0 ? "" : `, ${count(spent.openCalls, "call")} under way`;
  const waiting = spent.waitingCalls === 0 ? "" : `, ${count(spent.waitingCalls, "call")} waiting for budget`;
  return `${tokens(spent.tokens)}${ofTokens} tokens, ${price}${estimatedText(spent)}${open}${waiting}`;
}

/** Spending as JSON. */
export interface Spent {
  readonly calls: number;
  readonly openCalls: number;
  readonly waitingCalls: number;
  readonly estimatedCalls: number;
  readonly tokens: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Null if the price of any call is unknown; `knownUsd` then sums the others. */
  readonly usd: number | null;
  readonly knownUsd: number;
  readonly unpricedCalls: number;
}

export const spentJson = ({ microUsd, ...spent }: Spending): Spent => ({
  ...spent,
  ...sumJson({ ...spent, microUsd }),
});

export function sumJson({ tokens, microUsd, unpricedCalls }: SpendingSum) {
  const knownUsd = microUsd / micro;
  return { tokens, usd: unpricedCalls === 0 ? knownUsd : null, knownUsd, unpricedCalls };
}
