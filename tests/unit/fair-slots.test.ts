import { describe, expect, it } from "vitest";
import { type SlotUse, slotsFor } from "../../src/domain/fair-slots.ts";
import { createRandom } from "../support/random-plan.ts";

const use = (running: number, waits = true, limit: number | null = null): SlotUse => ({ running, waits, limit });
const uses = (of: Record<string, SlotUse>) => new Map(Object.entries(of));

describe("the slots of a tenant", () => {
  it("are all the free ones when nobody else waits", () => {
    expect(slotsFor("a", uses({ a: use(3), b: use(2, false) }), 8)).toBe(3);
    expect(slotsFor("a", uses({ a: use(8) }), 8)).toBe(0);
    expect(slotsFor("a", uses({ a: use(9) }), 8)).toBe(0);
  });

  it("end at its own limit", () => {
    expect(slotsFor("a", uses({ a: use(1, true, 3) }), null)).toBe(2);
    expect(slotsFor("a", uses({ a: use(4, true, 3) }), null)).toBe(0);
    expect(slotsFor("a", uses({ a: use(1, true, 3) }), 2)).toBe(1);
  });

  it("leave the next free slot to a waiting tenant that runs fewer", () => {
    const full = { a: use(7), b: use(0) };
    expect(slotsFor("a", uses(full), 8)).toBe(0);
    expect(slotsFor("b", uses(full), 8)).toBe(1);
  });

  it("split the free ones evenly", () => {
    expect(slotsFor("a", uses({ a: use(0), b: use(0) }), 8)).toBe(4);
    expect(slotsFor("a", uses({ a: use(4), b: use(0) }), 8)).toBe(0);
    expect(slotsFor("a", uses({ a: use(0), b: use(0), c: use(0) }), 8)).toBe(4);
  });

  it("do not wait for a tenant that is at its own limit", () => {
    expect(slotsFor("a", uses({ a: use(5), b: use(1, true, 1) }), 8)).toBe(2);
  });

  it("never leave everybody waiting, and never give out more than there are, in any order of requests", () => {
    const random = createRandom(7);
    for (let round = 0; round < 300; round += 1) {
      const total = random.between(1, 12);
      const names = ["a", "b", "c", "d"].slice(0, random.between(1, 4));
      const left = new Map(names.map((name) => [name, random.between(0, 20)]));
      const running = new Map(names.map((name) => [name, random.between(0, 3)]));
      const now = () =>
        uses(Object.fromEntries(names.map((name) => [name, use(running.get(name)!, left.get(name)! > 0)])));
      const before = [...running.values()].reduce((sum, one) => sum + one, 0);
      for (let turn = 0; turn < 40; turn += 1) {
        const name = names[turn % names.length]!;
        const started = Math.min(left.get(name)!, slotsFor(name, now(), total));
        left.set(name, left.get(name)! - started);
        running.set(name, running.get(name)! + started);
      }
      const after = [...running.values()].reduce((sum, one) => sum + one, 0);
      expect(after).toBeLessThanOrEqual(Math.max(total, before));
      expect([...left.values()].every((one) => one === 0) || after >= total).toBe(true);
    }
  });
});
