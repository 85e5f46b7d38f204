// W10. Each call reserves its worst case in one row-locked update before it is made.
import type { IdSource } from "../domain/ids.ts";
import type { Plan } from "../domain/plan.ts";
import type { BuildSpendingRow, ModelCallRow, Store, StoreTransaction } from "../store/port.ts";
import type { Granted, ModelLedger, ModelOwner, ModelOwnerKind, Reservation, Settlement } from "./port.ts";
import { costMicroUsd, type PriceTable, priceOf } from "./prices.ts";

export interface LedgerParts {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  readonly prices: PriceTable;
}

/** The ledger in the database: any process may answer the next call. */
export function createLedger(parts: LedgerParts): ModelLedger {
  const { store } = parts;
  return {
    findOwner: (kind, id, fence) => findOwner(store, kind, id, fence),
    reserve: (reservation) =>
      store.transaction("reserve-model-call", (transaction) => reserve(transaction, parts, reservation)),
    settle: (callId, settlement) =>
      store.transaction("settle-model-call", async (transaction) => {
        const call = await transaction.modelCalls.get({ id: callId });
        const spending = await transaction.lockSpending(call.buildId);
        await settle(transaction, parts, { call, spending, settlement });
      }),
  };
}

async function findOwner(store: Store, kind: ModelOwnerKind, id: string, fence: number): Promise<ModelOwner | null> {
  const found = kind === "attempt" ? await liveAttempt(store, id, fence) : await liveGate(store, id, fence);
  if (found === null) return null;
  const build = await store.builds.get({ id: found.buildId });
  if (build.status !== "running") return null;
  return { kind, id, buildId: build.id, name: found.name, budget: budgetOf(build.plan) };
}

const budgetOf = ({ limits: { budget } }: Plan) => ({ tokens: budget.tokens, usd: budget.usd });

async function liveAttempt(store: Store, id: string, fence: number) {
  const attempt = await store.attempts.find({ id, fence, status: ["starting", "running"] });
  if (attempt === null) return null;
  const task = attempt.taskId === null ? null : await store.tasks.get({ id: attempt.taskId });
  const wave = await store.waves.get({ id: attempt.waveId });
  const what = task?.key ?? `wave ${wave.number} ${attempt.kind}`;
  return { buildId: attempt.buildId, name: `${what} #${attempt.number}` };
}

async function liveGate(store: Store, id: string, fence: number) {
  const run = await store.gateRuns.find({ id, fence, status: ["requested", "running"] });
  if (run === null) return null;
  const wave = await store.waves.get({ id: run.waveId });
  return { buildId: wave.buildId, name: `wave ${wave.number} ${run.gate} #${run.round}` };
}

const micro = 1_000_000;
/** Fewer tokens than these are no answer. */
const leastOutputTokens = 256;

async function reserve(transaction: StoreTransaction, parts: LedgerParts, reservation: Reservation): Promise<Granted> {
  const { owner, provider, model, inputTokens } = reservation;
  const locked = await transaction.lockSpending(owner.buildId);
  const price = priceOf(provider, model, parts.prices);
  if (owner.budget.usd !== null && price === null) {
    return refused(`the price of ${provider}:${model} is unknown, and the build has a limit in USD`);
  }
  const spending = hasBudget(owner) ? await withGoneSettled(transaction, parts, locked) : locked;
  const left = roomLeft(owner, spending);
  const byTokens = left.tokens - inputTokens;
  const cost = (outputTokens: number): number =>
    price === null ? 0 : costMicroUsd(price, worst(inputTokens, outputTokens));
  const byUsd = price === null ? Number.POSITIVE_INFINITY : Math.floor((left.microUsd - cost(0)) / price.output);
  const outputTokens = Math.min(reservation.outputTokens, byTokens, byUsd);
  if (outputTokens < Math.min(leastOutputTokens, reservation.outputTokens)) return refused(overText(owner, spending));
  const reservedMicroUsd = price === null ? null : cost(outputTokens);
  const call = await transaction.modelCalls.insert({
    id: parts.ids("model-call"),
    buildId: owner.buildId,
    ownerKind: owner.kind,
    ownerId: owner.id,
    provider,
    model,
    status: "open",
    reservedTokens: inputTokens + outputTokens,
    reservedMicroUsd,
    startedAt: parts.now(),
  });
  await transaction.buildSpending.update(
    { buildId: owner.buildId },
    {
      reservedTokens: spending.reservedTokens + inputTokens + outputTokens,
      reservedMicroUsd: spending.reservedMicroUsd + (reservedMicroUsd ?? 0),
    },
  );
  return { callId: call.id, outputTokens };
}

const refused = (reason: string): Granted => ({ callId: null, reason: `wavesmith: over budget: ${reason}` });

const worst = (inputTokens: number, outputTokens: number) => ({
  inputTokens,
  cachedTokens: 0,
  cacheWriteTokens: inputTokens,
  outputTokens,
});

interface Room {
  readonly tokens: number;
  readonly microUsd: number;
}

const hasBudget = ({ budget }: ModelOwner): boolean => budget.tokens !== null || budget.usd !== null;

/** What may still be reserved. */
const roomLeft = ({ budget }: ModelOwner, row: BuildSpendingRow): Room => ({
  tokens: (budget.tokens ?? Number.POSITIVE_INFINITY) - row.spentTokens - row.reservedTokens,
  microUsd: (budget.usd ?? Number.POSITIVE_INFINITY) * micro - row.spentMicroUsd - row.reservedMicroUsd,
});

/** The row once calls whose owners are gone have given back what they held. */
async function withGoneSettled(
  transaction: StoreTransaction,
  parts: LedgerParts,
  locked: BuildSpendingRow,
): Promise<BuildSpendingRow> {
  const { buildId } = locked;
  let spending = locked;
  for (const call of await transaction.modelCalls.list({ buildId, status: "open" })) {
    if (await isHeld(transaction, call)) continue;
    const settlement = { status: "cut", usage: null, httpStatus: null, error: "whoever made it is gone" } as const;
    await settle(transaction, parts, { call, spending, settlement });
    spending = await transaction.buildSpending.get({ buildId });
  }
  return spending;
}

/** Whether the owner of a call under way is still live. */
async function isHeld(transaction: StoreTransaction, { ownerKind, ownerId }: ModelCallRow): Promise<boolean> {
  if (ownerKind === "gate")
    return (await transaction.gateRuns.find({ id: ownerId, status: ["requested", "running"] })) !== null;
  return (await transaction.attempts.find({ id: ownerId, status: ["starting", "running"] })) !== null;
}

function overText({ budget }: ModelOwner, { spentTokens, spentMicroUsd }: BuildSpendingRow): string {
  const parts = [
    ...(budget.tokens === null ? [] : [`${spentTokens} of ${budget.tokens} tokens`]),
    ...(budget.usd === null ? [] : [`${(spentMicroUsd / micro).toFixed(2)} of ${budget.usd.toFixed(2)} USD`]),
  ];
  return `${parts.join(" and ")} are spent, and what is under way may take the rest`;
}

interface Settling {
  readonly call: ModelCallRow;
  readonly spending: BuildSpendingRow;
  readonly settlement: Settlement;
}

async function settle(
  transaction: StoreTransaction,
  { prices, now }: LedgerParts,
  { call, spending, settlement }: Settling,
): Promise<void> {
  const { status, usage, httpStatus, error } = settlement;
  const price = priceOf(call.provider, call.model, prices);
  // What nobody counted is counted at its worst, unless the provider refused it.
  const unknown = usage === null && status !== "failed";
  const tokens = usage === null ? (unknown ? call.reservedTokens : 0) : usage.inputTokens + usage.outputTokens;
  const known =
    price === null ? null : usage === null ? (unknown ? call.reservedMicroUsd : 0) : costMicroUsd(price, usage);
  const settled = await transaction.modelCalls.update(
    { id: call.id, status: "open" },
    {
      status,
      inputTokens: usage?.inputTokens ?? null,
      cachedTokens: usage?.cachedTokens ?? null,
      outputTokens: usage?.outputTokens ?? null,
      microUsd: known,
      httpStatus,
      error,
      endedAt: now(),
    },
  );
  if (settled.length === 0) return; // Somebody else did.
  await transaction.buildSpending.update(
    { buildId: call.buildId },
    {
      reservedTokens: spending.reservedTokens - call.reservedTokens,
      reservedMicroUsd: spending.reservedMicroUsd - (call.reservedMicroUsd ?? 0),
      spentTokens: spending.spentTokens + tokens,
      spentMicroUsd: spending.spentMicroUsd + (known ?? 0),
      unpricedCalls: spending.unpricedCalls + (known === null && tokens > 0 ? 1 : 0),
    },
  );
}
