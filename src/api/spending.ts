import type { BuildView, WaveView } from "../coordinator/build/read-build.ts";
import { nothingSpent, type Spending, type SpendingSum, totalSpending } from "../domain/models.ts";
import { attemptsAt } from "./view-index.ts";

// The cost of models for an attempt, task, wave or build, also as JSON. Calls with an unknown price
// never count as free.

/** Sums what these attempts and gate runs spent. */
export const spentBy = ({ spending }: BuildView, owners: readonly { readonly id: string }[]): Spending =>
  totalSpending(owners.map(({ id }) => spending.get(id) ?? nothingSpent));

export const spentInWave = (view: BuildView, wave: WaveView): Spending =>
  spentBy(view, [...wave.attempts, ...wave.gates]);

/** Sums a task's spending over every wave, or in one. */
export function spentByTask(view: BuildView, taskKey: string, inWave?: WaveView): Spending {
  const attempts = attemptsAt(view, taskKey).filter(({ wave }) => inWave === undefined || wave === inWave);
  return spentBy(
    view,
    attempts.map(({ attempt }) => attempt),
  );
}

export const spentByBuild = ({ spending }: BuildView): Spending => totalSpending([...spending.values()]);

const micro = 1_000_000;

/** Spending as JSON. */
export interface Spent extends Omit<Spending, "microUsd"> {
  /** Null if the price of any call is unknown; `knownUsd` then sums the others. */
  readonly usd: number | null;
  readonly knownUsd: number;
}

export const spentJson = ({ microUsd, ...spent }: Spending): Spent => ({
  ...spent,
  ...sumJson({ ...spent, microUsd }),
});

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
