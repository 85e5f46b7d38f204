// W10. Before it is made, each call reserves its worst case in one row-locked update; it is settled
// exactly once.

import { limitsFor, spentUpText, type TenantLimits } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { IdSource } from "../../domain/ids.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { providerToolsOf } from "../../domain/sandbox/network.ts";
import { liveGateRunStatuses, startedAttemptStatuses } from "../../domain/status.ts";
import type { BuildSpendingRow, ModelCallRow, Store, StoreTransaction } from "../../store/port.ts";
import { hungUp } from "../call/relay.ts";
import type { Granted, ModelLedger, ModelOwner, ModelOwnerKind, Reservation, Settlement } from "../port.ts";
import { costMicroUsd, type Price } from "../prices/prices.ts";
import { type BudgetQueue, createBudgetQueue } from "./budget-queue.ts";
import { findUnfinished } from "./last-call.ts";
import { type Attempted, reserveOrWait, reserveWhole, waitingCallOf } from "./reserve-call.ts";

export interface LedgerParts {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  /** Null if unknown. */
  readonly priceOf: (provider: string, model: string) => Price | null;
  /** The limits of tenants that have no own ones; default: none. */
  readonly tenantLimits?: TenantLimits;
  /** How long a call waits for room in a budget; default: half an hour. */
  readonly longestWaitMs?: number;
}

const usualWaitMs = 30 * 60_000;

/** Creates the ledger in the database, so that any process may answer the next call. */
export function createModelLedger(parts: LedgerParts): ModelLedger {
  const { store } = parts;
  const ours = new Set<string>();
  const queue = createBudgetQueue(parts.longestWaitMs ?? usualWaitMs);
  const settleCall = async (callId: string, settlement: Settlement): Promise<void> => {
    const buildId = await store.transaction("settle-model-call", async (transaction) => {
      const call = await transaction.modelCalls.get({ id: callId });
      const spending = await transaction.lockSpending(call.buildId);
      await settle(transaction, parts, { call, spending, settlement });
      return call.buildId;
    });
    queue.wake(buildId);
  };
  return {
    findOwner: (kind, id, fence) => findOwner(parts, kind, id, fence),
    async reserve(reservation, signal) {
      const { tenantId, buildId } = reservation.owner;
      const spent = await tenantSpent(parts, tenantId);
      if (spent !== null) return { callId: null, isOver: true, reason: `over budget: ${spent}; ${raise}` };
      const quick = queue.isEmpty(buildId) ? await reserveWhole(parts, reservation) : null;
      const granted = quick ?? (await waitForRoom(parts, queue, reservation, signal));
      if (granted.callId !== null) ours.add(granted.callId);
      return granted;
    },
    waiting: (ownerId) => queue.waiting(ownerId),
    unfinished: (ownerId) => findUnfinished(store, ownerId),
    async noteHangUp(callId) {
      await store.modelCalls.update({ id: callId, status: "open", ending: null }, { ending: "broken", error: hungUp });
    },
    async overlookOpen(ownerId) {
      await store.modelCalls.update({ ownerId, status: "open", ending: null }, { ending: "left" });
    },
    async settle(callId, settlement) {
      await settleCall(callId, settlement);
      ours.delete(callId);
    },
    async settleLeft(projectId) {
      const builds = await store.builds.pick({ projectId }, ["id"]);
      const buildId = builds.map(({ id }) => id);
      if (buildId.length === 0) return;
      const open = await store.modelCalls.pick({ buildId, status: "open" }, ["id"]);
      for (const { id } of open) if (!ours.has(id)) await settleCall(id, goneSettlement);
      // A waiting call belongs to a dead process, because this one has not answered any call yet.
      await store.modelCalls.remove({ buildId, status: "waiting" });
    },
  };
}

/**
 * Says that a tenant has no money left for one more call; null if it has. Calls that were made
 * before may still spend more than that.
 */
async function tenantSpent({ store, tenantLimits }: LedgerParts, tenantId: string): Promise<string | null> {
  const limits = limitsFor((await store.tenants.find({ id: tenantId }))?.limits ?? {}, tenantLimits ?? noLimits);
  return limits.usd === null ? null : spentUpText(limits, (await store.tenantSpending(tenantId)).microUsd);
}

const raise = "an operator can raise that with `wavesmith tenants limit`";
const noLimits: TenantLimits = { builds: null, tasks: null, sandboxes: null, usd: null };

/** Waits until the budget has room for a call; until then the call has its own row. */
async function waitForRoom(
  parts: LedgerParts,
  queue: BudgetQueue,
  reservation: Reservation,
  signal: AbortSignal,
): Promise<Granted> {
  const { store } = parts;
  const { owner } = reservation;
  let waitingId: string | null = null;
  const settleGone = (transaction: StoreTransaction, spending: BuildSpendingRow) =>
    settleGoneCalls(transaction, parts, spending);
  const note = async (): Promise<void> => {
    const call = waitingCallOf(parts, reservation);
    await store.modelCalls.insert(call);
    waitingId = call.id;
  };
  const attempt = async (): Promise<Attempted> => {
    // The attempt may have ended during the wait, and the plan may have a larger budget now.
    const live = waitingId === null ? owner : await findOwner(parts, owner.kind, owner.id, owner.fence);
    if (live === null) return { callId: null, isOver: false, reason: "the attempt is over" };
    const waited = { reservation: { ...reservation, owner: live }, waitingId };
    const attempted = await store.transaction("reserve-model-call", (transaction) =>
      reserveOrWait(transaction, { ...parts, settleGone }, waited),
    );
    if ("waitingId" in attempted) ({ waitingId } = attempted);
    return attempted;
  };
  try {
    const granted = await queue.grant(owner, { attempt, note }, signal);
    if (granted.callId === waitingId) waitingId = null;
    return granted;
  } finally {
    // The call was refused or its agent hung up, so it was never made.
    if (waitingId !== null) await store.modelCalls.remove({ id: waitingId, status: "waiting" });
  }
}

/** The settlement of a call whose process is gone: nobody knows its usage. */
const goneSettlement: Settlement = {
  ...{ status: "cut", usage: null, isEstimated: true, httpStatus: null, ending: "broken" },
  error: "the process that made the call is gone",
};

async function findOwner(
  { store, now }: LedgerParts,
  kind: ModelOwnerKind,
  id: string,
  fence: number,
): Promise<ModelOwner | null> {
  const found = await {
    attempt: () => liveAttempt(store, id, fence),
    gate: () => liveGate(store, id, fence),
    session: () => (fence * 60_000 > now().getTime() ? findAttempt(store, id) : null),
  }[kind]();
  if (found === null || (found.build.status === "running") !== (kind !== "session")) return null;
  const { build, name } = found;
  const tools = providerToolsOf(build.network, build.plan);
  return { kind, id, fence, tenantId: build.tenantId, buildId: build.id, name, budget: budgetOf(build.plan), tools };
}

const budgetOf = ({ limits: { budget } }: Plan) => ({ tokens: budget.tokens, usd: budget.usd });

async function liveAttempt(store: Store, id: string, fence: number) {
  const found = await findAttempt(store, id);
  const isLive = found?.attempt.fence === fence && startedAttemptStatuses.includes(found.attempt.status);
  return isLive ? found : null;
}

async function findAttempt(store: Store, id: string) {
  // One statement, because every call starts with it.
  const found = await store.attemptInContext(id).catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return null;
    throw error;
  });
  if (found === null) return null;
  const { attempt, build, wave, task } = found;
  const label = task?.key ?? `wave ${wave.number} ${attempt.kind}`;
  return { attempt, build, name: `${label} #${attempt.number}` };
}

async function liveGate(store: Store, id: string, fence: number) {
  const run = await store.gateRuns.find({ id, fence, status: liveGateRunStatuses });
  if (run === null) return null;
  const [wave, build] = await Promise.all([store.waves.get({ id: run.waveId }), store.builds.get({ id: run.buildId })]);
  return { build, name: `wave ${wave.number} ${run.gate} #${run.round}` };
}

interface Settling {
  readonly call: ModelCallRow;
  readonly spending: BuildSpendingRow;
  readonly settlement: Settlement;
}

/** Returns the row after dead owners' calls have released their reservations. */
async function settleGoneCalls(
  transaction: StoreTransaction,
  parts: LedgerParts,
  locked: BuildSpendingRow,
): Promise<BuildSpendingRow> {
  const { buildId } = locked;
  let spending = locked;
  for (const call of await transaction.modelCalls.list({ buildId, status: "open" })) {
    if (await isHeld(transaction, call)) continue;
    await settle(transaction, parts, { call, spending, settlement: goneSettlement });
    spending = await transaction.buildSpending.get({ buildId });
  }
  return spending;
}

/** Whether the owner of an open call is still live. */
async function isHeld(transaction: StoreTransaction, { ownerKind, ownerId }: ModelCallRow): Promise<boolean> {
  // A session ends its own calls, or the next process that answers its project's calls does.
  if (ownerKind === "session") return true;
  if (ownerKind === "gate")
    return (await transaction.gateRuns.find({ id: ownerId, status: liveGateRunStatuses })) !== null;
  return (await transaction.attempts.find({ id: ownerId, status: startedAttemptStatuses })) !== null;
}

async function settle(
  transaction: StoreTransaction,
  { priceOf, now }: LedgerParts,
  { call, spending, settlement }: Settling,
): Promise<void> {
  const { status, usage, isEstimated, httpStatus, error, ending } = settlement;
  const price = priceOf(call.provider, call.model);
  // A call whose end we did not see counts at its worst case, unless the provider refused it.
  const unknown = usage === null && status !== "failed";
  const tokens = usage === null ? (unknown ? call.reservedTokens : 0) : usage.inputTokens + usage.outputTokens;
  const costOrNull =
    price === null ? null : usage === null ? (unknown ? call.reservedMicroUsd : 0) : costMicroUsd(price, usage);
  const settled = await transaction.modelCalls.update(
    { id: call.id, status: "open" },
    {
      status,
      inputTokens: usage?.inputTokens ?? null,
      cachedTokens: usage?.cachedTokens ?? null,
      outputTokens: usage?.outputTokens ?? null,
      microUsd: costOrNull,
      estimated: isEstimated,
      httpStatus,
      error,
      // Nobody waited for a call that was still open when its agent's turn ended.
      ending: ending === "left" && call.ending !== "left" ? "broken" : ending,
      endedAt: now(),
    },
  );
  if (settled.length === 0) return; // another call settled it
  await transaction.buildSpending.update(
    { buildId: call.buildId },
    {
      reservedTokens: spending.reservedTokens - call.reservedTokens,
      reservedMicroUsd: spending.reservedMicroUsd - (call.reservedMicroUsd ?? 0),
      spentTokens: spending.spentTokens + tokens,
      spentMicroUsd: spending.spentMicroUsd + (costOrNull ?? 0),
      unpricedCalls: spending.unpricedCalls + (costOrNull === null && tokens > 0 ? 1 : 0),
    },
  );
}
