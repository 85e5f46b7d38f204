import { describe, expect, it } from "vitest";
import type { Caller } from "../../src/domain/access.ts";
import { createRateLimit } from "../../src/server/access/rate-limit.ts";

const caller = (keyId: string): Caller => ({ tenantId: "t", tenant: "t", scope: "read", keyId, name: keyId });

describe("the rate limit of the API", () => {
  it("lets a minute's worth of requests through at once, then one whenever the bucket has room", () => {
    let now = 0;
    const limit = createRateLimit(60, () => now);
    for (let request = 0; request < 60; request += 1) expect(limit.waitMs(caller("a"))).toBe(0);
    expect(limit.waitMs(caller("a"))).toBe(1000);
    expect(limit.waitMs(caller("b")), "each key has its own").toBe(0);
    now = 999;
    expect(limit.waitMs(caller("a"))).toBe(1);
    now = 1000;
    expect(limit.waitMs(caller("a"))).toBe(0);
    expect(limit.waitMs(caller("a"))).toBe(1000);
  });

  it("can be off", () => {
    const limit = createRateLimit(null, () => 0);
    for (let request = 0; request < 1000; request += 1) expect(limit.waitMs(caller("a"))).toBe(0);
  });
});
