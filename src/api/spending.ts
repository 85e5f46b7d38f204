import type { StatusView, StatusWave } from "../coordinator/build/build-view.ts";
import { nothingSpent, type Spending, type SpendingSum, totalSpending } from "../domain/models.ts";
import { attemptsAt } from "./view-index.ts";

// The cost of models for an attempt, task, wave or build, and its JSON. Calls with an unknown price
// never count as free.

/** Sums what these attempts and gate runs spent. */
export const spentBy = ({ spending }: StatusView, owners: readonly { readonly id: string }[]): Spending =>
  totalSpending(owners.flatMap(({ id }) => spending.get(id) ?? []));

export const spentInWave = (view: StatusView, wave: StatusWave): Spending =>
  spentBy(view, [...wave.attempts, ...wave.gates]);

/** Sums a task's spending over every wave, or in one. */
export function spentByTask(view: StatusView, taskKey: string, inWave?: StatusWave): Spending {
  if (view.spending.size === 0) return nothingSpent;
  const attempts = attemptsAt(view, taskKey).filter(({ wave }) => inWave === undefined || wave === inWave);
  return spentBy(
    view,
    attempts.map(({ attempt }) => attempt),
  );
}

export const spentByBuild = ({ spending }: StatusView): Spending => totalSpending([...spending.values()]);

const micro = 1_000_000;

/** Spending as JSON. */
export interface Spent extends Omit<Spending, "microUsd"> {
  /** Null if the price of any call is unknown; `knownUsd` then sums the others. */
  readonly usd: number | null;
  readonly knownUsd: number;
}

/** Spending as JSON. */
export const spentJson = (spending: Spending): Spent =>
  spending === nothingSpent ? nothingSpentJson : writtenSpending(spending);

/** Names each field: a copy by `...` takes fifty times as long. */
function writtenSpending(spending: Spending): Spent {
  const { calls, openCalls, waitingCalls, estimatedCalls, tokens, inputTokens, cachedTokens, outputTokens } = spending;
  const { usd, knownUsd, unpricedCalls } = sumJson(spending);
  return {
    calls,
    openCalls,
    waitingCalls,
    estimatedCalls,
    tokens,
    inputTokens,
    cachedTokens,
    outputTokens,
    unpricedCalls,
    usd,
    knownUsd,
  };
}

/** Shared by the many tasks of a build that call no model. */
const nothingSpentJson = writtenSpending(nothingSpent);

export function sumJson({ tokens, microUsd, unpricedCalls }: SpendingSum) {
  const knownUsd = microUsd / micro;
  return { tokens, usd: unpricedCalls === 0 ? knownUsd : null, knownUsd, unpricedCalls };
}

/** Reads what `sumJson` wrote. */
export const sumFromJson = ({ tokens, knownUsd, unpricedCalls }: ReturnType<typeof sumJson>): SpendingSum => ({
  tokens,
  microUsd: Math.round(knownUsd * micro),
  unpricedCalls,
});
