import { describe, expect, it } from "vitest";
import { seedsToTry } from "../support/random-plan.ts";
import { simulate } from "./simulate.ts";

// A seed that failed, again:  WAVESMITH_SEEDS=1234 npx vitest run tests/simulation
// More than a normal run has: WAVESMITH_SEEDS=1-20000 npx vitest run tests/simulation

describe("builds in a world decided by a number", () => {
  it("end, or say what they need, and keep every invariant", { timeout: 3_600_000 }, async () => {
    const seeds = seedsToTry(Array.from({ length: 1_000 }, (_, index) => index + 1));
    const failed: string[] = [];
    const statuses: Record<string, number> = {};
    for (const seed of seeds) {
      const ended = await simulate(seed).catch((error: Error) => {
        failed.push(error.message);
        return null;
      });
      for (const status of ended?.statuses ?? []) statuses[status] = (statuses[status] ?? 0) + 1;
      if (failed.length >= 5) break;
    }
    expect(failed.map((message) => message.split("\n")[0])).toEqual([]);
  });
});
