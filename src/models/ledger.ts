// W10. Each call reserves its worst case in one row-locked update before it is made.
import { WavesmithError } from "../domain/errors.ts";
import type { IdSource } from "../domain/ids.ts";
import { providerToolsOf } from "../domain/network.ts";
import type { Plan } from "../domain/plan.ts";
import type { BuildSpendingRow, ModelCallInsert, ModelCallRow, Store, StoreTransaction } from "../store/port.ts";
import type { Granted, ModelLedger, ModelOwner, ModelOwnerKind, Reservation, Settlement } from "./port.ts";
import { costMicroUsd, type Price, rateOf } from "./prices.ts";

export interface LedgerParts {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  /** Null: nobody knows it. */
  readonly priceOf: (provider: string, model: string) => Price | null;
}

/** The ledger in the database: any process may answer the next call. */
export function createLedger(parts: LedgerParts): ModelLedger {
  const { store } = parts;
  const ours = new Set<string>();
  const settleCall = (callId: string, settlement: Settlement): Promise<void> =>
    store.transaction("settle-model-call", async (transaction) => {
      const call = await transaction.modelCalls.get({ id: callId });
      const spending = await transaction.lockSpending(call.buildId);
      await settle(transaction, parts, { call, spending, settlement });
    });
  return {
    findOwner: (kind, id, fence) => findOwner(store, kind, id, fence),
    async reserve(reservation) {
      const granted =
        (await reserveWhole(parts, reservation)) ??
        (await store.transaction("reserve-model-call", (transaction) => reserve(transaction, parts, reservation)));
      if (granted.callId !== null) ours.add(granted.callId);
      return granted;
    },
    async settle(callId, settlement) {
      await settleCall(callId, settlement);
      ours.delete(callId);
    },
    async settleLeft(projectId) {
      const builds = await store.builds.pick({ projectId }, ["id"]);
      const buildId = builds.map(({ id }) => id);
      const open = buildId.length === 0 ? [] : await store.modelCalls.pick({ buildId, status: "open" }, ["id"]);
      for (const { id } of open) if (!ours.has(id)) await settleCall(id, gone);
    },
  };
}

/** What it took nobody knows any more. */
const gone: Settlement = { status: "cut", usage: null, httpStatus: null, error: "whoever made it is gone" };

async function findOwner(store: Store, kind: ModelOwnerKind, id: string, fence: number): Promise<ModelOwner | null> {
  const found = kind === "attempt" ? await liveAttempt(store, id, fence) : await liveGate(store, id, fence);
  if (found === null || found.build.status !== "running") return null;
  const { build, name } = found;
  const tools = providerToolsOf(build.network, build.plan);
  return { kind, id, fence, buildId: build.id, name, budget: budgetOf(build.plan), tools };
}

const budgetOf = ({ limits: { budget } }: Plan) => ({ tokens: budget.tokens, usd: budget.usd });

async function liveAttempt(store: Store, id: string, fence: number) {
  // One statement, since every call begins with it.
  const found = await store.attemptInContext(id).catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return null;
    throw error;
  });
  if (found === null) return null;
  const { attempt, build, wave, task } = found;
  if (attempt.fence !== fence || !["starting", "running"].includes(attempt.status)) return null;
  const what = task?.key ?? `wave ${wave.number} ${attempt.kind}`;
  return { build, name: `${what} #${attempt.number}` };
}

async function liveGate(store: Store, id: string, fence: number) {
  const run = await store.gateRuns.find({ id, fence, status: ["requested", "running"] });
  if (run === null) return null;
  const [wave, build] = await Promise.all([store.waves.get({ id: run.waveId }), store.builds.get({ id: run.buildId })]);
  return { build, name: `wave ${wave.number} ${run.gate} #${run.round}` };
}

const micro = 1_000_000;
/** Fewer tokens than these are no answer. */
const leastOutputTokens = 256;

/** Nearly every call has room for all it asks for, which takes one statement. Null: this one has not, or is the first. */
async function reserveWhole(parts: LedgerParts, reservation: Reservation): Promise<Granted | null> {
  const { owner, provider, model, outputTokens } = reservation;
  const { tokens, usd } = owner.budget;
  const price = parts.priceOf(provider, model);
  if (usd !== null && price === null) return null;
  const call = callOf(parts, reservation, { price, outputTokens });
  const microUsd = usd === null ? null : Math.floor(usd * micro);
  return (await parts.store.reserveModelCall(call, { tokens, microUsd })) ? { callId: call.id, outputTokens } : null;
}

async function reserve(transaction: StoreTransaction, parts: LedgerParts, reservation: Reservation): Promise<Granted> {
  const { owner, provider, model } = reservation;
  const locked = await transaction.lockSpending(owner.buildId);
  const price = parts.priceOf(provider, model);
  if (owner.budget.usd !== null && price === null) {
    return refused(`the price of ${provider}:${model} is unknown, and the build has a limit in USD`);
  }
  let spending = locked;
  let outputTokens = grantable(reservation, price, spending);
  if (outputTokens < reservation.outputTokens && locked.reservedTokens > 0) {
    spending = await withGoneSettled(transaction, parts, locked);
    outputTokens = grantable(reservation, price, spending);
  }
  if (outputTokens < Math.min(leastOutputTokens, reservation.outputTokens)) return refused(overText(owner, spending));
  const call = callOf(parts, reservation, { price, outputTokens });
  await transaction.modelCalls.insert(call);
  await transaction.buildSpending.update(
    { buildId: owner.buildId },
    {
      reservedTokens: spending.reservedTokens + call.reservedTokens,
      reservedMicroUsd: spending.reservedMicroUsd + (call.reservedMicroUsd ?? 0),
    },
  );
  return { callId: call.id, outputTokens };
}

/** The call at its worst, when its answer may take so much. */
function callOf(
  { ids, now }: LedgerParts,
  { owner, provider, model, inputTokens }: Reservation,
  { price, outputTokens }: { price: Price | null; outputTokens: number },
): ModelCallInsert {
  return {
    id: ids("model-call"),
    buildId: owner.buildId,
    ownerKind: owner.kind,
    ownerId: owner.id,
    provider,
    model,
    status: "open",
    reservedTokens: inputTokens + outputTokens,
    reservedMicroUsd: price === null ? null : costMicroUsd(price, worst(inputTokens, outputTokens)),
    startedAt: now(),
  };
}

/** How much an answer may take, at most what was asked for; less than nothing when not even the question has room. */
function grantable(
  { owner, inputTokens, outputTokens }: Reservation,
  price: Price | null,
  row: BuildSpendingRow,
): number {
  const left = roomLeft(owner, row);
  const byTokens = left.tokens - inputTokens;
  if (price === null) return Math.min(outputTokens, byTokens);
  const withoutAnswer = left.microUsd - costMicroUsd(price, worst(inputTokens, 0));
  const { output } = rateOf(price, inputTokens);
  const byUsd = withoutAnswer < 0 ? -1 : output === 0 ? outputTokens : Math.floor(withoutAnswer / output);
  return Math.min(outputTokens, byTokens, byUsd);
}

const refused = (reason: string): Granted => ({ callId: null, reason: `over budget: ${reason}` });

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
    await settle(transaction, parts, { call, spending, settlement: gone });
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
  { priceOf, now }: LedgerParts,
  { call, spending, settlement }: Settling,
): Promise<void> {
  const { status, usage, httpStatus, error } = settlement;
  const price = priceOf(call.provider, call.model);
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
