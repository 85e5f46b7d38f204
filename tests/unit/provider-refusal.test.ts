import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { requestedWait } from "../../src/models/call/provider-call.ts";

// A busy provider's refusal says how long to wait. The refusal itself may take long to end.

describe("the refusal of a busy provider", () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => vi.useRealTimers());
  const reply = (headers: Record<string, string> = {}) => Object.assign(new PassThrough(), { headers });

  it("is not read forever", async () => {
    const dripping = reply();
    dripping.write('{"retryDelay": "7s"');
    const wait = requestedWait(dripping as unknown as IncomingMessage);
    await vi.advanceTimersByTimeAsync(9_000);
    dripping.write(" ");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await wait).toBe("7");
    expect(dripping.destroyed).toBe(true);
  });

  it("is not read beyond 64 KB", async () => {
    const endless = reply({ "retry-after": "3" });
    endless.write(Buffer.alloc(100_000, "x"));
    expect(await requestedWait(endless as unknown as IncomingMessage)).toBe("3");
    expect(endless.destroyed).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });
});
