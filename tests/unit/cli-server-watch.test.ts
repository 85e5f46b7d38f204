import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { watchServer } from "../../src/cli/builds/server-watch.ts";
import type { SentBuild } from "../../src/cli/server/ask-server.ts";
import { createClient } from "../../src/client/client.ts";

const buildId = "bld_1";
const event = { type: "agent/wave.start", at: "2026-11-23T00:00:00.000Z", eventId: "agent/wave.start:1", buildId };

it("reports a lost server, waits for it and misses no event", async () => {
  let connections = 0;
  const server = createServer((_, response) => {
    connections += 1;
    if (connections === 1) return void response.destroy();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`id: 1\nevent: agent/wave.start\ndata: ${JSON.stringify(event)}\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sent: SentBuild = {
    view: {} as SentBuild["view"],
    repository: "",
    planFile: null,
    buildAhead: null,
    lastEvent: null,
  };
  const reportLost = vi.fn();
  const asking = { client: createClient({ baseUrl }), sent: async () => sent, reportLost };
  const watch = await watchServer(asking, buildId, "first");
  try {
    const seen: string[] = [];
    await expect
      .poll(
        async () => {
          seen.push(...(await watch.next()).events.map(({ eventId }) => eventId));
          return seen;
        },
        { timeout: 10_000 },
      )
      .toEqual([event.eventId]);
    expect(reportLost).toHaveBeenCalledOnce();
  } finally {
    watch.close();
  }
});

it("returns the events up to a view before the build's end is shown", async () => {
  let tell: () => void = () => undefined;
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    tell = () => response.write(`id: 7\nevent: agent/wave.start\ndata: ${JSON.stringify(event)}\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const view = {} as SentBuild["view"];
  let lastEvent: number | null = null;
  const sent = async () => ({ view, repository: "", planFile: null, buildAhead: null, lastEvent });
  const asking = { client: createClient({ baseUrl }), sent, reportLost: () => undefined };
  const connected = new Promise<void>((resolve) => server.once("request", () => resolve()));
  const watch = await watchServer(asking, buildId, "first");
  try {
    await connected;
    lastEvent = 7;
    const read = watch.read();
    tell(); // reported after the view
    await read;
    expect((await watch.next()).events.map(({ eventId }) => eventId)).toEqual([event.eventId]);
  } finally {
    watch.close();
  }
});
