import { EventEmitter, once } from "node:events";
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { openPreviewProxy } from "../../src/delivery/preview-proxy.ts";

it("closes only when no connection is being made any more", async () => {
  const events = new EventEmitter();
  let isReached = false;
  const proxy = await openPreviewProxy({
    async reach() {
      const found = once(events, "found");
      events.emit("asked");
      await found;
      isReached = true;
      return { kind: "starting", why: "it wakes up" };
    },
  });
  const asked = once(events, "asked");
  const client = connect(proxy.port, "127.0.0.1").on("error", () => undefined);
  await asked;
  const gone = once(client, "close");
  const closed = proxy.close().then(() => isReached);
  await gone;
  for (let turns = 0; turns < 50; turns += 1) await turn();
  events.emit("found");
  expect(await closed).toBe(true);
});
