// A call that costs money: reserved before it is made, settled when it is over.
//
// MP1. A call is made only when its worst case is reserved (W10), and settled once, however it
// ends.

import type { IncomingMessage } from "node:http";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { leastOutputOf, limitBody, outputLimitOf, usualOutputTokens } from "../apis.ts";
import type { FindLimits } from "../limits.ts";
import type { Cassette, CassetteAnswer, CassetteCall, ModelLedger, Settlement } from "../port.ts";
import { Refusal } from "../refusal.ts";
import { offersTools } from "../requests/offered-tools.ts";
import { fieldsOf } from "../requests/parts.ts";
import { type Backoff, isBusyStatus, isFailingStatus } from "./backoff.ts";
import type { Measured } from "./measure.ts";
import { type ProviderCall, requestedWait, send } from "./provider-call.ts";
import { hungUp, relay, replay } from "./relay.ts";
import { isComplete } from "./usage.ts";

export interface CallParts {
  readonly ledger: ModelLedger;
  readonly backoff: Backoff;
  readonly findLimits: FindLimits;
  readonly cassette: Cassette | null;
  /** How long a call is repeated while its provider fails. */
  readonly patienceMs: number;
  readonly warn: (message: string) => void;
}

/** How long a call waits for a busy provider before it gets an error. */
const maxPauseMs = 30 * 60_000;
const firstFaultWaitMs = 1_000;
const maxFaultWaitMs = 60_000;

/** Makes a call within its build's budget. */
export async function passMetered(
  parts: CallParts,
  call: ProviderCall,
  { body, model, size }: { body: Record<string, unknown>; model: string; size: Measured },
): Promise<Settlement> {
  const { api, owner, provider, gone } = call;
  const named = outputLimitOf(api, body);
  const reservation = {
    ...{ owner, provider: provider.name, model, inputTokens: size.worstTokens, keepsLong: size.keepsLong },
    outputTokens: await longestAnswer(parts, call, { model, named }),
    leastOutputTokens: leastOutputOf(body),
    offersTools: offersTools(body),
  };
  const granted = await parts.ledger.reserve(reservation, gone);
  if (granted.callId === null) throw new Refusal(granted.isOver ? 402 : 429, granted.reason);
  const { callId, outputTokens } = granted;
  // Without a budget, a server that knows its own limit is left to it.
  const isFree = named === null && owner.budget.tokens === null && owner.budget.usd === null;
  const sent = limitBody(api, body, isFree ? null : outputTokens);
  let noting: Promise<void> = Promise.resolve();
  onHangUp(call, () => {
    noting = parts.ledger.noteHangUp(callId);
    noting.catch(() => undefined); // Settling it awaits the note.
  });
  const settlement = await passOn(parts, call, sent).catch(async (error: unknown) => {
    await noting;
    await parts.ledger.settle(callId, unanswered(call, error));
    throw error;
  });
  await noting;
  const counted = settlement.isEstimated ? atMost(settlement, outputTokens) : settlement;
  await parts.ledger.settle(callId, counted);
  return counted;
}

/** Calls back when the agent hangs up before it has the whole answer (HT2). */
function onHangUp(call: ProviderCall, callback: () => void): void {
  const { gone } = call;
  const over = (): void => {
    call.heardEnding = call.readEnding?.() ?? "broken";
    if (!isComplete(call.heardEnding)) callback();
  };
  if (gone.aborted) over();
  else gone.addEventListener("abort", over, { once: true });
}

/**
 * Returns the longest answer that a call may have: the one it names, otherwise the usual one, but
 * no more than its model's window can hold. opencode asks for 32,000 tokens whatever the window.
 */
async function longestAnswer(
  { findLimits }: CallParts,
  call: ProviderCall,
  { model, named }: { model: string; named: number | null },
): Promise<number> {
  const { contextTokens, outputTokens } = await findLimits(call.provider.name, model);
  const wanted = named ?? outputTokens ?? usualOutputTokens;
  const room = contextTokens === null ? wanted : contextTokens - call.likelyInputTokens - windowMargin;
  return Math.min(wanted, Math.max(leastOutput, Math.min(outputTokens ?? wanted, room)));
}

/** Tokens left free in a window, because the size of a request is an estimate. */
const windowMargin = 1_024;
const leastOutput = 256;

/**
 * Estimates a call that broke off. A call that never reached the provider cost nothing; if there
 * was no answer, only the size of the request is known.
 */
function unanswered({ wasSent, gone, likelyInputTokens: inputTokens }: ProviderCall, error: unknown): Settlement {
  const ending = gone.aborted ? "left" : wasSent ? "broken" : "error";
  const outcome = { httpStatus: null, error: gone.aborted ? hungUp : messageOf(error), ending } as const;
  if (!wasSent) return { status: "failed", usage: null, isEstimated: false, ...outcome };
  const usage = { inputTokens, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
  return { status: "cut", usage, isEstimated: true, ...outcome };
}

/** Caps the output in a settlement at what was reserved. */
const atMost = ({ usage, ...settlement }: Settlement, outputTokens: number): Settlement => ({
  ...settlement,
  usage: usage && { ...usage, outputTokens: Math.min(usage.outputTokens, outputTokens) },
});

/**
 * Makes the call and relays its answer. While the provider is busy, all of its calls wait together;
 * while it fails, this one is repeated for some minutes.
 */
export async function passOn(
  parts: CallParts,
  call: ProviderCall,
  body: Record<string, unknown> | null,
): Promise<Settlement> {
  const { backoff, cassette } = parts;
  const { owner, provider, path } = call;
  const cassetteCall: CassetteCall = { owner: owner.name, provider: provider.name, path, body };
  const recordedAnswer = await findRecorded(cassette, cassetteCall);
  if (recordedAnswer !== null) return replay(call, recordedAnswer);
  const begun = performance.now();
  const hasTime = (ms: number): boolean => performance.now() - begun < ms;
  for (let faults = 0; ; ) {
    await backoff.ready(provider.name, { owner: owner.id, signal: call.gone });
    // An agent that repeats a call that we have given up is not given the same time again.
    const isPatient = backoff.failingMs(provider.name, owner.id) < parts.patienceMs;
    const reply = await trySend(call, body, isPatient);
    const status = reply?.statusCode ?? 502;
    if (reply === null || isFailingStatus(status)) backoff.failed(provider.name, owner.id);
    else backoff.works(provider.name, owner.id);
    if (isBusyStatus(status) && hasTime(maxPauseMs)) {
      call.wasSent = false;
      const waitMs = backoff.busy(provider.name, await requestedWait(present(reply, "the reply")));
      parts.warn(`${provider.name} answers ${status}: its calls wait for ${Math.ceil(waitMs / 1000)} s`);
    } else if (reply === null || (isFailingStatus(status) && isPatient)) {
      call.wasSent = false;
      reply?.resume();
      const waitMs = Math.min(firstFaultWaitMs * 2 ** faults++, maxFaultWaitMs, parts.patienceMs);
      if (faults === 1)
        parts.warn(`${provider.name} ${reply === null ? "cannot be reached" : `answers ${status}`}: trying again`);
      await backoff.pause(waitMs, { owner: owner.id, signal: call.gone });
    } else {
      if (!isBusyStatus(status)) backoff.calm(provider.name);
      return relay(call, reply, cassette === null ? null : (answered) => keepAnswer(parts, cassetteCall, answered));
    }
  }
}

/**
 * Finds the recorded answer. A recording lacks the calls that their agent did not wait for, such as
 * Codex's for a session's title, so a missing call beside the work is refused without a warning.
 */
async function findRecorded(cassette: Cassette | null, call: CassetteCall): Promise<CassetteAnswer | null> {
  if (cassette === null) return null;
  return cassette.find(call).catch((error: unknown) => {
    const isBeside = error instanceof WavesmithError && error.code === "not-found" && !offersTools(fieldsOf(call.body));
    throw isBeside ? new Refusal(502, error.message) : error;
  });
}

/** Sends the call; null if the provider cannot be reached and the caller wants to try again. */
async function trySend(call: ProviderCall, body: object | null, isPatient: boolean): Promise<IncomingMessage | null> {
  try {
    return await send(call, body);
  } catch (error) {
    if (!isPatient || call.wasSent || call.gone.aborted || call.cut.aborted) throw error;
    return null;
  }
}

/** Settles an answered call, even if its answer could not be recorded. */
const keepAnswer = async ({ cassette, warn }: CallParts, call: CassetteCall, answer: CassetteAnswer) =>
  cassette?.keep(call, answer).catch((error: unknown) => warn(`the cassette is incomplete: ${messageOf(error)}`));
