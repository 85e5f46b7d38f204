import { once } from "node:events";
import { createServer, get, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, expect, it } from "vitest";
import { cutOffUnread } from "../../src/server/unread-answer.ts";

let server: Server;
afterEach(() => new Promise<void>((done) => server.close(() => done()).closeAllConnections()));

async function serve(answer: RequestListener): Promise<string> {
  server = createServer(answer);
  cutOffUnread(server, 100);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

it("cuts off a client that takes nothing of its answer", async () => {
  // More than the buffers of both sockets hold.
  const url = await serve((_request, response) => response.end(Buffer.alloc(64 * 1024 * 1024)));
  const asked = once(server, "request");
  const [answer] = await once(get(url), "response");
  const [, response] = await asked;
  await once(response, "close");
  await expect(text(answer)).rejects.toThrow("aborted");
});

it("waits for an answer that is late, whole or in parts", async () => {
  const url = await serve(async (_request, response) => {
    await once(response, "timeout");
    await once(response, "timeout");
    response.write("late");
    await once(response, "timeout");
    response.end(" and in parts");
  });
  const [answer] = await once(get(url), "response");
  expect(await text(answer)).toBe("late and in parts");
});
