import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createUsers } from "../../src/guest/isolation/users.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-users-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const owns = (): boolean => false;

it("begins with a random user, so that two sandboxes rarely share one, and continues where an earlier guest stopped", () => {
  const first = createUsers(folder, owns).next();
  expect(first).toBeGreaterThanOrEqual(20_000);
  expect(first).toBeLessThan(24_000);
  expect(createUsers(folder, owns).next()).toBe(20_000 + ((first - 20_000 + 1) % 4_000));
  const starts = new Set(
    Array.from({ length: 20 }, () => {
      rmSync(join(folder, "next-user"));
      return createUsers(folder, owns).next();
    }),
  );
  expect(starts.size).toBeGreaterThan(10);
});

it("gives out no user who owns or runs something", () => {
  const users = createUsers(folder, (uid) => uid % 400 !== 7);
  const taken = users.next();
  expect(taken % 400).toBe(7);
  const { end } = users.begin(taken);
  const others = Array.from({ length: 9 }, () => users.next());
  expect(users.next()).toBe(others[0]);
  expect(others).not.toContain(taken);
  end();
});
