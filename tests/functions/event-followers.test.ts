import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { eventsOf } from "../../src/coordinator/build-events.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

const key = "s3cret-of-the-followers";

describe("the followers of a build", { timeout: 120_000 }, () => {
  const fixture = eachBuildFixture();
  let server: RunningServer;
  let buildId: string;
  let reported = 0;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    reported = 0;
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: () => undefined, unreadMs: 500 },
    });
    buildId = (await fixture.build({ tasks: [{ id: "a", run: "echo a > a.txt" }] })).id;
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await server.stop(1_000);
  });

  /** Commits an agent's reports; `wait` holds the transaction open. */
  async function report(count: number, { text = "x", wait = async () => undefined as unknown } = {}): Promise<void> {
    const { store } = fixture.app;
    const build = await store.builds.get({ id: buildId });
    await store.transaction("test", async (transaction) => {
      const { activity: write } = eventsOf(transaction, build);
      const facts = { role: "backend", waveNumber: 1, taskKey: "a", activity: { kind: "message", text } as const };
      for (let index = 0; index < count; index += 1) await write("test", reported++, facts);
      await wait();
    });
  }

  /** Follows until `isOver`; returns the ids. `slowly` waits before each part is read. */
  async function follow(isOver: (ids: number[]) => boolean, slowly?: () => Promise<unknown>): Promise<number[]> {
    const hangUp = new AbortController();
    const response = await fetch(`${server.origin}/api/v1/builds/${buildId}/events`, {
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.any([hangUp.signal, AbortSignal.timeout(60_000)]),
    });
    const ids: number[] = [];
    let rest = "";
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const events = `${rest}${part}`.split("\n\n");
      rest = events.pop() ?? "";
      ids.push(...events.flatMap((event) => /^id: (\d+)$/m.exec(event)?.[1] ?? []).map(Number));
      if (isOver(ids)) break;
      await slowly?.();
    }
    hangUp.abort();
    return ids;
  }

  it("SH1, SH2: all see every event once and in one order, whenever they join and however slow they are", async () => {
    let open: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      open = resolve;
    });
    let isOver = false;
    let last = 0;
    const hasAll = (ids: number[]) => isOver && ids.includes(last);
    const following = [follow(hasAll), follow(hasAll), follow(hasAll, () => report(1))];
    const writing = [1, 2, 3].map(async (writer) => {
      for (let round = 0; round < 20; round += 1) {
        await report(writer * 5);
        if (round % 5 === writer) following.push(follow(hasAll));
      }
    });
    // It commits after younger transactions, so its events follow theirs although it began first.
    const late = report(3, { wait: () => held });
    await Promise.all(writing);
    open();
    await late;
    await report(1_100);
    isOver = true;
    await report(1);
    const rows = await fixture.app.store.outbox.list({ buildId }, { by: "seq" });
    last = rows.at(-1)?.seq ?? 0;
    await report(1); // tells them that it is over
    const orders = await Promise.all(following);
    const first = (orders[0] ?? []).slice(0, (orders[0] ?? []).indexOf(last) + 1);
    expect(new Set(first)).toEqual(new Set(rows.map(({ seq }) => seq)));
    expect(first).toHaveLength(rows.length);
    for (const ids of orders) expect(ids.slice(0, first.length)).toEqual(first);
  });

  it("LF1: one that never reads is cut off, and the others miss nothing", async () => {
    const request = `GET /api/v1/builds/${buildId}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const { feed } = fixture.app;
    const { onCommit } = feed;
    const cutOff = new Promise<void>((resolve) => {
      vi.spyOn(feed, "onCommit").mockImplementation((listener) => {
        const listening = onCommit(listener);
        return { stop: () => resolve(listening.stop()) };
      });
    });
    const idle = connect(Number(new URL(server.origin).port), "127.0.0.1", () => idle.write(request));
    sockets.push(idle);
    idle.pause();
    // More than the socket's buffers hold.
    for (let round = 0; round < 6; round += 1) await report(50, { text: "x".repeat(40_000) });
    await cutOff;
    const { length } = await fixture.app.store.outbox.list({ buildId });
    expect(await follow((ids) => ids.length === length)).toHaveLength(length);
  });
});
