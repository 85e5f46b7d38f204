import type { AttemptOutcome, Verdict, WaveStatus } from "../domain/status.ts";
import type { Ports } from "./port.ts";

// The output of a function: facts about its subject, for people who read a list of runs. Null means
// not settled yet.

export const attemptOutcome = async ({ store }: Ports, id: string): Promise<AttemptOutcome | null> =>
  (await store.attempts.find({ id }))?.outcome ?? null;

export const gateVerdict = async ({ store }: Ports, id: string): Promise<Verdict | null> =>
  (await store.gateRuns.find({ id }))?.verdict ?? null;

export const waveStatus = async ({ store }: Ports, buildId: string, number: number): Promise<WaveStatus | null> =>
  (await store.waves.find({ buildId, number }))?.status ?? null;
