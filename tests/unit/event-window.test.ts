import { expect, test } from "vitest";
import { createEventWindow } from "../../src/server/api/event-window.ts";

const event = (seq: number, size = 1) => ({ seq, bytes: Buffer.alloc(size, `${seq % 10}`) });
const textAfter = (window: ReturnType<typeof createEventWindow>, position: number | null) => {
  const next = window.after(position);
  return next === null ? null : [Buffer.from(next.bytes).toString(), next.after, next.hasMore];
};

test("SH1: a window returns what follows a position, and nothing for an unknown position", () => {
  const window = createEventWindow();
  expect([window.end(), textAfter(window, null)]).toEqual([undefined, null]);
  window.reset(null);
  expect([window.end(), textAfter(window, null)]).toEqual([null, ["", null, false]]);
  // In the order of their commits, which differs from that of their ids.
  window.add([event(3), event(2)]);
  window.add([event(5)]);
  expect(textAfter(window, null)).toEqual(["325", 5, false]);
  expect(textAfter(window, 3)).toEqual(["25", 5, false]);
  expect(textAfter(window, 5)).toEqual(["", 5, false]);
  expect(textAfter(window, 4)).toBeNull();
  window.clear();
  expect([window.end(), textAfter(window, 5)]).toEqual([undefined, null]);
});

test("a window keeps the last events within its bounds, and returns a part of them at a time", () => {
  const window = createEventWindow();
  window.reset(0);
  for (let first = 1; first <= 1_200; first += 100)
    window.add(Array.from({ length: 100 }, (_, index) => event(first + index)));
  expect(textAfter(window, 199)).toBeNull();
  expect(textAfter(window, 200)?.slice(1)).toEqual([400, true]);
  expect(textAfter(window, 1_100)?.slice(1)).toEqual([1_200, false]);
  window.add([event(1_201, 600_000), event(1_202, 600_000)]);
  expect(textAfter(window, 1_200)).toBeNull();
  expect(textAfter(window, 1_201)?.slice(1)).toEqual([1_202, false]);
});

test("followers share the bytes of a part although each asks for more before the next one's turn", () => {
  const window = createEventWindow();
  window.reset(0);
  window.add([event(1), event(2)]);
  const first = window.after(0);
  expect(window.after(2)?.bytes).toHaveLength(0);
  expect(window.after(0)?.bytes).toBe(first?.bytes);
});
