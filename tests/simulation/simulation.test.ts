import { describe, expect, it } from "vitest";
import { seedsToTry } from "../support/random-plan.ts";
import { simulate } from "./simulate.ts";

// A seed that failed, again:
//   WAVESMITH_SEEDS=1234 npx vitest run tests/simulation
// More seeds than a normal run has:
//   WAVESMITH_SEEDS=1-20000 npx vitest run tests/simulation
// With everything that happened:
//   WAVESMITH_TRACE=100000 WAVESMITH_SEEDS=1234 npx vitest run tests/simulation

/** Worlds in which something once failed, added to the usual ones. */
const broken = [1070, 1192, 1603, 2259, 2525];
const usual = [...Array.from({ length: 1_000 }, (_, index) => index + 1), ...broken];

describe("builds in a world decided by a number", () => {
  it("end, or say what they need, and keep every invariant", { timeout: 3_600_000 }, async () => {
    const seeds = seedsToTry(usual);
    const happened: Record<string, number> = {};
    const failed: Error[] = [];
    for (const seed of seeds) {
      const ended = await simulate(seed).catch((error: Error) => void failed.push(error));
      for (const [what, times] of Object.entries(ended?.happened ?? {})) happened[what] = (happened[what] ?? 0) + times;
      for (const status of ended?.statuses ?? []) happened[status] = (happened[status] ?? 0) + 1;
      if (failed.length >= 5) break;
    }
    const others = failed.slice(1).map((error) => error.message.split("\n")[0]);
    if (failed.length > 0) throw new Error([...others, failed[0]!.message].join("\n"), { cause: failed[0] });
    if (seeds.length === usual.length) expect(misfortunes.filter((what) => !((happened[what] ?? 0) >= 10))).toEqual([]);
  });

  it("go the same way again with the same number", { timeout: 60_000 }, async () => {
    expect(await simulate(7)).toEqual(await simulate(7));
  });
});

/** Events that must have happened in enough of the worlds. */
const misfortunes = [
  "an orchestrator dies",
  "a run is taken over",
  "a sandbox dies",
  "a job ends in a shared tree",
  "a critic looks again",
  "a gate's agent is asked",
  "added checks are run",
  "a volume is lost",
  "a long time passes",
  "a try comes later",
  "a function sleeps",
  "there is no room for a sandbox",
  "tasks held back are asked for again",
  "a volume is above its limit",
  "cancel",
  "retry",
  "rollback",
  "edit",
  "decision",
  "completed",
  "failed",
  "cancelled",
];
