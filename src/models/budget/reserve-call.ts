// Computes a call's worst case and whether a budget has room for it now, later or never.
//
// W10. Each call reserves its worst case in one row-locked update before it is made.
import type { IdSource } from "../../domain/ids.ts";
import type { BuildSpendingRow, ModelCallInsert, Store, StoreTransaction } from "../../store/port.ts";
import type { Granted, ModelOwner, Reservation } from "../port.ts";
import { costMicroUsd, type Price, rateOf } from "../prices/prices.ts";

interface ReserveParts {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  readonly priceOf: (provider: string, model: string) => Price | null;
}

/** A call recorded as waiting, because other calls hold the room it needs. */
interface Waits {
  readonly waitingId: string;
}

export type Attempted = Granted | Waits;

const micro = 1_000_000;

/**
 * Reserves the full request in one statement, which works for nearly every call. Null when there is
 * too little room or no row yet.
 */
export async function reserveWhole(parts: ReserveParts, reservation: Reservation): Promise<Granted | null> {
  const { owner, provider, model, outputTokens } = reservation;
  const { tokens, usd } = owner.budget;
  const price = parts.priceOf(provider, model);
  if (usd !== null && price === null) return null;
  const call = callOf(parts, reservation, { price, outputTokens });
  const microUsd = usd === null ? null : Math.floor(usd * micro);
  return (await parts.store.reserveModelCall(call, { tokens, microUsd })) ? { callId: call.id, outputTokens } : null;
}

interface ReserveOrWaitParts extends ReserveParts {
  /** Settles calls whose owners are gone and returns the row. */
  readonly settleGone: (transaction: StoreTransaction, spending: BuildSpendingRow) => Promise<BuildSpendingRow>;
}

/**
 * Reserves the full request, or the rest of the budget if no other call is open. Otherwise the call
 * waits, because open calls may free room. A call is refused only if actual spending leaves no
 * room.
 */
export async function reserveOrWait(
  transaction: StoreTransaction,
  parts: ReserveOrWaitParts,
  { reservation, waitingId }: { reservation: Reservation; waitingId: string | null },
): Promise<Attempted> {
  const { owner, provider, model } = reservation;
  const locked = await transaction.lockSpending(owner.buildId);
  const price = parts.priceOf(provider, model);
  if (owner.budget.usd !== null && price === null) {
    return refused(`the price of ${provider}:${model} is unknown, but the build has a limit in USD`);
  }
  const isWhole = (row: BuildSpendingRow): boolean => grantable(reservation, price, row) >= reservation.outputTokens;
  const spending =
    isWhole(locked) || locked.reservedTokens === 0 ? locked : await parts.settleGone(transaction, locked);
  const least = Math.min(reservation.leastOutputTokens, reservation.outputTokens);
  const unreserved = { ...spending, reservedTokens: 0, reservedMicroUsd: 0 };
  if (grantable(reservation, price, unreserved) < least)
    return refused(overText(reservation, { price, spending, outputTokens: least }));
  if (!isWhole(spending) && spending.reservedTokens > 0)
    return recordWaitingCall(transaction, parts, { reservation, waitingId });
  const outputTokens = grantable(reservation, price, spending);
  const call = { ...callOf(parts, reservation, { price, outputTokens }), ...(waitingId !== null && { id: waitingId }) };
  if (waitingId === null) await transaction.modelCalls.insert(call);
  else await transaction.modelCalls.update({ id: waitingId, status: "waiting" }, call);
  await transaction.buildSpending.update(
    { buildId: owner.buildId },
    {
      reservedTokens: spending.reservedTokens + call.reservedTokens,
      reservedMicroUsd: spending.reservedMicroUsd + (call.reservedMicroUsd ?? 0),
    },
  );
  return { callId: call.id, outputTokens };
}

/** Records a call as waiting, once, for people to see. */
async function recordWaitingCall(
  transaction: StoreTransaction,
  parts: ReserveParts,
  { reservation, waitingId }: { reservation: Reservation; waitingId: string | null },
): Promise<Waits> {
  if (waitingId !== null) return { waitingId };
  const call = waitingCallOf(parts, reservation);
  await transaction.modelCalls.insert(call);
  return { waitingId: call.id };
}

/** Returns the row of a waiting call, which reserves nothing. */
export const waitingCallOf = (parts: ReserveParts, reservation: Reservation): ModelCallInsert => ({
  ...callOf(parts, reservation, { price: null, outputTokens: 0 }),
  status: "waiting",
  reservedTokens: 0,
});

/** Returns the row of a call that reserves its worst case for an answer of this many tokens. */
function callOf(
  { ids, now }: ReserveParts,
  reservation: Reservation,
  { price, outputTokens }: { price: Price | null; outputTokens: number },
): ModelCallInsert {
  const { owner, provider, model, inputTokens, offersTools } = reservation;
  return {
    id: ids("model-call"),
    buildId: owner.buildId,
    ownerKind: owner.kind,
    ownerId: owner.id,
    provider,
    model,
    status: "open",
    offersTools,
    reservedTokens: inputTokens + outputTokens,
    reservedMicroUsd: price === null ? null : costMicroUsd(price, worst(reservation, outputTokens)),
    startedAt: now(),
  };
}

/**
 * Returns the largest answer the budget allows, at most the requested one; negative if not even the
 * request fits.
 */
function grantable(reservation: Reservation, price: Price | null, row: BuildSpendingRow): number {
  const { owner, inputTokens, outputTokens } = reservation;
  const left = roomLeft(owner, row);
  const byTokens = left.tokens - inputTokens;
  if (price === null) return Math.min(outputTokens, byTokens);
  const withoutAnswer = left.microUsd - costMicroUsd(price, worst(reservation, 0));
  const { output } = rateOf(price, inputTokens);
  const byUsd = withoutAnswer < 0 ? -1 : output === 0 ? outputTokens : Math.floor(withoutAnswer / output);
  return Math.min(outputTokens, byTokens, byUsd);
}

const refused = (reason: string): Granted => ({ callId: null, isOver: true, reason: `over budget: ${reason}` });

const worst = ({ inputTokens, keepsLong }: Reservation, outputTokens: number) => ({
  inputTokens,
  cachedTokens: 0,
  cacheWriteTokens: inputTokens,
  cacheWriteLongTokens: keepsLong ? inputTokens : 0,
  outputTokens,
});

interface Room {
  readonly tokens: number;
  readonly microUsd: number;
}

/** Returns the free part of the budget. */
const roomLeft = ({ budget }: ModelOwner, row: BuildSpendingRow): Room => ({
  tokens: (budget.tokens ?? Number.POSITIVE_INFINITY) - row.spentTokens - row.reservedTokens,
  microUsd: (budget.usd ?? Number.POSITIVE_INFINITY) * micro - row.spentMicroUsd - row.reservedMicroUsd,
});

/** Says what is spent, and what the call may take at least. */
function overText(
  reservation: Reservation,
  { price, spending, outputTokens }: { price: Price | null; spending: BuildSpendingRow; outputTokens: number },
): string {
  const { budget } = reservation.owner;
  const spent: string[] = [];
  const wanted: string[] = [];
  if (budget.tokens !== null) {
    spent.push(`${spending.spentTokens} of ${budget.tokens} tokens`);
    wanted.push(`${reservation.inputTokens + outputTokens} tokens`);
  }
  if (budget.usd !== null) {
    spent.push(`${usdText(spending.spentMicroUsd)} of ${budget.usd.toFixed(2)} USD`);
    if (price !== null) wanted.push(`${usdText(costMicroUsd(price, worst(reservation, outputTokens)))} USD`);
  }
  const room = wanted.length === 0 ? "" : `, which may take ${wanted.join(" and ")}`;
  return `${spent.join(" and ")} are spent: no room for this call${room}`;
}

const usdText = (microUsd: number): string => (microUsd / micro).toFixed(2);
