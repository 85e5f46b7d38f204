// A call that costs money: reserved before it is made, settled when it is over.
//
// P1. A call is made only when its worst case is reserved (W10), and settled once, however it ends.
import { messageOf } from "../domain/errors.ts";
import { heldBody, leastOutputOf, outputLimitOf } from "./apis.ts";
import { type Backoff, isBusy } from "./backoff.ts";
import type { Measured } from "./measure.ts";
import type { Cassette, CassetteAnswer, CassetteCall, ModelLedger, Settlement } from "./port.ts";
import { askedWait, type Call, send } from "./provider-call.ts";
import { Refusal } from "./refusal.ts";
import { relay, replay } from "./relay.ts";

export interface CallParts {
  readonly ledger: ModelLedger;
  readonly backoff: Backoff;
  readonly cassette: Cassette | null;
  readonly warn: (message: string) => void;
}

/** How long a call waits for a busy provider before it gets an error. */
const longestPauseMs = 30 * 60_000;

/** Makes a call within its build's budget. */
export async function passMetered(
  parts: CallParts,
  call: Call,
  { body, model, size }: { body: Record<string, unknown>; model: string; size: Measured },
): Promise<Settlement> {
  const { api, owner, provider, gone } = call;
  const reservation = {
    ...{ owner, provider: provider.name, model, inputTokens: size.worstTokens, keepsLong: size.keepsLong },
    ...{ outputTokens: outputLimitOf(api, body), leastOutputTokens: leastOutputOf(body) },
  };
  const granted = await parts.ledger.reserve(reservation, gone);
  if (granted.callId === null) throw new Refusal(granted.isOver ? 402 : 429, granted.reason);
  const { callId, outputTokens } = granted;
  const settlement = await passOn(parts, call, heldBody(api, body, outputTokens)).catch(async (error: unknown) => {
    await parts.ledger.settle(callId, unanswered(call, error));
    throw error;
  });
  const counted = settlement.isEstimated ? atMost(settlement, outputTokens) : settlement;
  await parts.ledger.settle(callId, counted);
  return counted;
}

/**
 * Estimates a call that broke off. A call that never reached the provider cost nothing; if there
 * was no answer, only the size of the request is known.
 */
function unanswered({ wasSent, likelyInputTokens: inputTokens }: Call, error: unknown): Settlement {
  const outcome = { httpStatus: null, error: messageOf(error) };
  if (!wasSent) return { status: "failed", usage: null, isEstimated: false, ...outcome };
  const usage = { inputTokens, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
  return { status: "cut", usage, isEstimated: true, ...outcome };
}

/** Caps usage at the amount reserved. */
const atMost = ({ usage, ...settlement }: Settlement, outputTokens: number): Settlement => ({
  ...settlement,
  usage: usage && { ...usage, outputTokens: Math.min(usage.outputTokens, outputTokens) },
});

/** Makes the call and relays its answer; waits with all other calls while the provider is busy. */
export async function passOn(parts: CallParts, call: Call, body: Record<string, unknown> | null): Promise<Settlement> {
  const { backoff, cassette } = parts;
  const { owner, provider, path } = call;
  const kept: CassetteCall = { owner: owner.name, provider: provider.name, path, body };
  const found = (await cassette?.find(kept)) ?? null;
  if (found !== null) return replay(call, found);
  const deadline = performance.now() + longestPauseMs;
  for (;;) {
    await backoff.ready(provider.name, { owner: owner.id, signal: call.gone });
    const reply = await send(call, body);
    const status = reply.statusCode ?? 502;
    if (!isBusy(status) || performance.now() > deadline) {
      if (!isBusy(status)) backoff.calm(provider.name);
      return relay(call, reply, cassette === null ? null : (answered) => keepAnswer(parts, kept, answered));
    }
    call.wasSent = false;
    const waitMs = backoff.busy(provider.name, await askedWait(reply));
    parts.warn(`${provider.name} answers ${status}: its calls wait for ${Math.ceil(waitMs / 1000)} s`);
  }
}

/** Settles an answered call, even if its answer could not be recorded. */
const keepAnswer = async ({ cassette, warn }: CallParts, call: CassetteCall, answer: CassetteAnswer) =>
  cassette?.keep(call, answer).catch((error: unknown) => warn(`the cassette is incomplete: ${messageOf(error)}`));
