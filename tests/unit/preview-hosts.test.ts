import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { forwardRequest } from "../../src/delivery/preview-hosts.ts";

const host = "127.0.0.1";

describe("a request to a preview's host", () => {
  let answer = "";
  let asked = "";
  const inside = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (data) => {
      asked = data.toString("latin1");
      socket.end(answer, "latin1");
    });
  });
  const outside = createHttpServer((incoming, response) => {
    const reach = async () => ({ kind: "connected", connection: connect(portOf(inside), host) }) as const;
    void forwardRequest(incoming, response, { reach, used: () => undefined });
  });
  const portOf = (server: Server): number => (server.address() as AddressInfo).port;
  const listen = (server: Server) => new Promise<void>((done) => server.listen(0, host, () => done()));
  const close = (server: Server) => new Promise<void>((done) => server.close(() => done()));
  beforeAll(async () => {
    await listen(inside);
    await listen(outside);
  });
  afterAll(async () => {
    await close(outside);
    await close(inside);
  });

  /** Sends requests without Node's client, which refuses to send such requests. */
  const ask = (): Promise<string> => {
    const socket = connect(portOf(outside), host);
    socket.write("GET / HTTP/1.1\r\nHost: x\r\nTrailer: late\r\nConnection: close\r\n\r\n");
    return text(socket);
  };

  it("is forwarded without the announcement of trailers, and so is its answer", async () => {
    answer = "HTTP/1.1 200 OK\r\nTrailer: late\r\nContent-Length: 2\r\n\r\nhi";
    const shown = await ask();
    expect(shown).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(shown).toMatch(/\r\n\r\nhi$/);
    expect(shown).not.toMatch(/trailer/i);
    expect(asked).toMatch(/^GET \/ HTTP\/1\.1\r\n/);
    expect(asked).not.toMatch(/trailer/i);
  });

  it.each(["000 nothing", "200 \x01\x7f", "not HTTP"])("survives a preview that answers %j", async (status) => {
    answer = `HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`;
    expect(await ask()).toMatch(/^HTTP\/1\.1 [2-5]\d\d /);
  });
});
