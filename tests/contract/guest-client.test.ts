import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createListener, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { WavesmithError } from "../../src/domain/errors.ts";
import { createGuestClient } from "../../src/sandbox/guest/guest-client.ts";
import { connectToSocket } from "../../src/sandbox/guest/guest-socket.ts";
import type { GuestClient } from "../../src/sandbox/port.ts";

describe("the client of a guest", () => {
  let folder: string;
  let server: Server | null = null;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
  });
  afterEach(() => {
    server?.closeAllConnections();
    server?.close();
    server = null;
    rmSync(folder, { recursive: true, force: true });
  });

  /** A client of something that is not a guest. */
  const clientOf = async (listener: RequestListener): Promise<GuestClient> => {
    server = createServer(listener);
    const path = join(folder, "s");
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    return createGuestClient({ connect: path, name: "sbx_test" });
  };
  const failure = (promise: Promise<unknown>): Promise<WavesmithError> =>
    promise.then(
      () => {
        throw new Error("it did not fail");
      },
      (error: unknown) => {
        if (error instanceof WavesmithError) return error;
        throw error;
      },
    );

  it("says that a guest cannot be reached, and that a retry may help", async () => {
    const client = createGuestClient({ socketFolder: join(folder, "nowhere"), name: "sbx_test" });
    const error = await failure(client.health());
    expect(error).toMatchObject({ code: "sandbox-unavailable", retryable: true });
    expect(error.message).toMatch(/sbx_test/);
  });

  it("makes single calls to a guest of an earlier version, which takes no batches", async () => {
    const asked: string[] = [];
    const client = await clientOf((request, response) => {
      asked.push(`${request.method} ${request.url?.split("?")[0]}`);
      if (request.method === "DELETE") return response.writeHead(204).end();
      const body = JSON.stringify({ error: { code: "no-route", message: "not part of the protocol" } });
      response.writeHead(404, { "content-length": body.length }).end(body);
    });
    await Promise.all([client.remove("a"), client.remove("b")]);
    expect(asked).toEqual(["POST /v1/batch", "DELETE /v1/files", "DELETE /v1/files"]);
  });

  it("believes no batch of answers that is not one for each call", async () => {
    const answers = ['{"answers":[{"value":null}]}', '{"answers":7}', '{"answers":[{"value":7},{"value":"x"}]}'];
    for (const answer of answers) {
      const client = await clientOf((_request, response) => response.end(answer));
      const both = [client.stat("a"), client.stat("b")];
      for (const one of both) expect((await failure(one)).code).toBe("guest-protocol");
      server?.closeAllConnections();
      server?.close();
    }
  });

  it("believes no answer that breaks the protocol", async () => {
    const answers = ["no json", "[]", '{"protocol":1}', JSON.stringify({ key: "other", status: "passed" })];
    for (const answer of answers) {
      const client = await clientOf((_request, response) => response.end(answer));
      expect((await failure(client.health())).code).toBe("guest-protocol");
      expect((await failure(client.findJob("key"))).code).toBe("guest-protocol");
      server?.closeAllConnections();
      server?.close();
    }
  });

  it("reads no answer without bound", async () => {
    const client = await clientOf((_request, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, "x")));
        if (!response.destroyed) response.once("drain", more);
      };
      more();
    });
    expect((await failure(client.readFile("endless", { maxBytes: 1_000_000 }))).code).toBe("guest-protocol");
    const read = client.readOutput("key", { offset: 0, limitBytes: 10 });
    expect((await failure(read)).code).toBe("guest-protocol");
  });

  describe("when an answer arrives one byte at a time", () => {
    let drip: NodeJS.Timeout | undefined;
    let dripping: Socket[] = [];
    const every = setInterval;
    beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] }));
    afterEach(() => {
      vi.useRealTimers();
      clearInterval(drip);
      for (const socket of dripping) socket.destroy();
      dripping = [];
    });

    /** Answers with this at once, and then with a byte every millisecond. */
    const drippingClient = async (begin: string): Promise<GuestClient> => {
      const listener = createListener((socket) => {
        dripping.push(socket.on("error", () => undefined));
        socket.once("data", () => {
          socket.write(begin);
          drip = every(() => socket.write("x"), 1);
        });
      });
      const path = join(folder, "s");
      await new Promise<void>((resolve) => listener.listen(path, resolve));
      listener.unref();
      return createGuestClient({ connect: path, name: "sbx_test" });
    };
    /** Makes an hour pass in a few minutes while the bytes keep coming. */
    const passTime = async (isOver: () => boolean): Promise<void> => {
      for (let minute = 0; minute < 60 && !isOver(); minute += 1) {
        await new Promise((resolve) => every(resolve, 20).unref());
        await vi.advanceTimersByTimeAsync(60_000);
      }
    };

    it.each([
      [
        "its body",
        "HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n",
        "guest-protocol",
        /bytes of the guest's answer came in a minute/,
      ],
      ["its header", "HTTP/1.1 200 OK\r\nx-slow: ", "sandbox-unavailable", /no answer for/],
    ])("does not wait for the rest of %s", async (_what, begin, code, message) => {
      const client = await drippingClient(begin);
      let isOver = false;
      const failed = failure(client.readFile("slow")).finally(() => {
        isOver = true;
      });
      await passTime(() => isOver);
      const error = await failed;
      expect(error.code).toBe(code);
      expect(error.message).toMatch(message);
    });

    it("does not wait for the rest of the header of a tunnel", async () => {
      const client = await drippingClient("HTTP/1.1 101 Switching Protocols\r\nx-slow: ");
      let isOver = false;
      const failed = failure(client.tunnel(80)).finally(() => {
        isOver = true;
      });
      await passTime(() => isOver);
      expect(await failed).toMatchObject({ code: "sandbox-unavailable" });
    });
  });

  it("takes a torn answer for a guest that went away", async () => {
    const client = await clientOf((_request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("half");
      setImmediate(() => response.destroy());
    });
    expect(await failure(client.readFile("torn"))).toMatchObject({ code: "sandbox-unavailable", retryable: true });
  });

  it("gives up waiting when its caller does", async () => {
    const client = await clientOf(() => undefined);
    const caller = new AbortController();
    const waiting = client.findJob("key", { revision: 1, waitMs: 60_000, signal: caller.signal });
    caller.abort(new Error("the caller gave up"));
    await expect(waiting).rejects.toThrow("the caller gave up");
  });

  it("does not take a refusal without a reason for an answer", async () => {
    const client = await clientOf((_request, response) => {
      response.statusCode = 404;
      response.end("<html>not a guest</html>");
    });
    expect((await failure(client.findJob("key"))).code).toBe("guest-protocol");
    expect((await failure(client.tunnel(80))).code).toBe("guest-protocol");
  });

  it("asks again when a pooled connection had been closed meanwhile", async () => {
    let asked = 0;
    const client = await clientOf((request, response) => {
      asked += 1;
      // The first answer leaves the connection open, and the second question on it finds it closed.
      if (asked === 2) request.socket.destroy();
      else response.end("content");
    });
    await client.readFile("a");
    expect((await client.readFile("b"))?.toString()).toBe("content");
    expect(asked).toBe(3);
  });

  it("reaches a socket whose path is longer than an address may be", async () => {
    const deep = join(folder, ...Array.from({ length: 6 }, () => "a-folder-with-a-long-name"));
    mkdirSync(deep, { recursive: true });
    const path = join(deep, "guest.sock");
    expect(path.length).toBeGreaterThan(107);
    server = createServer((_request, response) => response.end("content"));
    const before = process.cwd();
    process.chdir(deep);
    await new Promise<void>((resolve) => server?.listen("guest.sock", resolve));
    process.chdir(before);
    const client = createGuestClient({ socketFolder: deep });
    expect((await client.readFile("a"))?.toString()).toBe("content");
    (await connectToSocket(path)).destroy();
  });
});
