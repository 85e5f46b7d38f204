import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createMux, type Mux } from "../../src/guest/channel/mux.ts";
import { channelRoomBytes } from "../../src/guest/channel/mux-channel.ts";
import { encodeFrame, frameKind, muxMagic, muxVersion } from "../../src/guest/channel/mux-frames.ts";

const hello = Buffer.concat(encodeFrame(frameKind.hello, muxMagic, Buffer.from([muxVersion])));

describe("channels over one stream", () => {
  let folder: string;
  let sockets: Socket[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-mux-test-"));
    sockets = [];
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Both ends of a real stream. */
  const pair = async (): Promise<[near: Socket, far: Socket]> => {
    const server = createServer({ allowHalfOpen: true });
    server.listen(join(folder, "s"));
    await once(server, "listening");
    const near = connect(join(folder, "s"));
    const [far] = (await once(server, "connection")) as [Socket];
    server.close();
    sockets.push(near, far);
    return [near, far];
  };
  const connected = async (onChannel: (channel: Duplex) => void): Promise<{ near: Mux; far: Mux; stream: Socket }> => {
    const [near, far] = await pair();
    return { near: createMux(near), far: createMux(far, { onChannel }), stream: near };
  };
  const echo = (channel: Duplex): void => {
    channel.on("error", () => undefined);
    channel.pipe(channel);
  };
  /** Writes all bytes and reads the answer. */
  const exchange = async (channel: Duplex, bytes: Buffer): Promise<Buffer> => {
    channel.end(bytes);
    return buffer(channel);
  };

  it("carry what was written, both ways, at the same time and in order", async () => {
    const { near } = await connected(echo);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.uint8Array({ maxLength: 90_000 }), { maxLength: 5 }), { maxLength: 6 }),
        async (channels) => {
          await Promise.all(
            channels.map(async (chunks) => {
              const channel = near.open();
              const back = buffer(channel);
              for (const chunk of chunks) if (!channel.write(chunk)) await once(channel, "drain");
              channel.end();
              expect((await back).equals(Buffer.concat(chunks))).toBe(true);
            }),
          );
        },
      ),
      { numRuns: 15 },
    );
    const large = Buffer.alloc(5_000_000, "0123456789");
    expect((await exchange(near.open(), large)).equals(large)).toBe(true);
  });

  it("end one direction and keep the other one open", async () => {
    const { near } = await connected((channel) => {
      let sizeBytes = 0;
      channel.on("data", (chunk: Buffer) => {
        sizeBytes += chunk.length;
      });
      channel.on("end", () => setImmediate(() => channel.end(`${sizeBytes} bytes`)));
    });
    expect((await exchange(near.open(), Buffer.alloc(1_000_000))).toString()).toBe("1000000 bytes");
  });

  it("are closed on the other side when they are destroyed here", async () => {
    const accepted: Duplex[] = [];
    const { near } = await connected((channel) => {
      channel.on("error", () => undefined);
      channel.write("hello");
      accepted.push(channel);
    });
    const channel = near.open();
    await once(channel, "readable");
    channel.destroy();
    const error = await once(accepted[0]!, "error").then(([reason]) => reason as NodeJS.ErrnoException);
    expect(error.code).toBe("ECONNRESET");
    expect(accepted[0]!.destroyed).toBe(true);
    // Nothing else was harmed.
    const next = near.open().on("error", () => undefined);
    expect(String((await once(next, "data"))[0])).toBe("hello");
  });

  it("let an answer be read even if its sender no longer listens", async () => {
    const { near } = await connected((channel) => {
      channel.on("error", () => undefined);
      channel.once("data", () => {
        channel.end("too large");
        channel.once("finish", () => channel.destroy());
      });
    });
    const channel = near.open();
    for (let count = 0; count < 50; count += 1) channel.write(Buffer.alloc(100_000));
    expect((await buffer(channel)).toString()).toBe("too large");
  });

  it("do not wait for a channel that is not read, and buffer little of it", async () => {
    const { near } = await connected((channel) => {
      channel.on("error", () => undefined);
      channel.once("data", (first: Buffer) => {
        if (first.toString() === "pour") pour(channel, 300_000_000);
        else channel.end(first);
      });
    });
    const slow = near.open();
    slow.write("pour");
    await once(slow, "readable");
    const before = process.memoryUsage().rss;
    for (let count = 0; count < 200; count += 1) {
      expect((await exchange(near.open(), Buffer.from(`quick ${count}`))).toString()).toBe(`quick ${count}`);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(50_000_000);
    let received = 0;
    for await (const chunk of slow) received += (chunk as Buffer).length;
    expect(received).toBe(300_000_000);
  });

  it("all break when the stream does", async () => {
    const { near, far, stream } = await connected(echo);
    const channels = [near.open(), near.open()];
    await Promise.all(channels.map((channel) => channel.write("x") && once(channel, "data")));
    const errors = channels.map((channel) => once(channel, "error"));
    stream.destroy();
    for (const [error] of await Promise.all(errors)) expect(error).toMatchObject({ code: "ECONNRESET" });
    expect(await near.closed).toBeNull();
    expect(await far.closed).toBeNull();
    expect(() => near.open()).toThrow("closed");
  });

  it("keep the process alive only while one of them is in use", async () => {
    const { near, stream } = await connected(echo);
    const calls: string[] = [];
    Object.assign(stream, { ref: () => calls.push("ref"), unref: () => calls.push("unref") });
    const channel = near.open() as Duplex & { ref(): void; unref(): void };
    const other = near.open();
    channel.unref();
    other.destroy();
    channel.ref();
    channel.destroy();
    await once(channel, "close");
    expect(calls).toEqual(["ref", "unref", "ref", "unref"]);
  });

  it("are limited in number", async () => {
    const accepted: Duplex[] = [];
    const { near } = await connected((channel) => accepted.push(channel.on("error", () => undefined)));
    for (let count = 0; count < 1_024; count += 1) near.open().on("error", () => undefined);
    expect(() => near.open()).toThrow("1024 channels");
  });

  describe("meet a hostile other side", () => {
    const data = (id: number, bytes: Buffer): Buffer => Buffer.concat(encodeFrame(frameKind.data, id, bytes));
    const room = (id: number, sizeBytes: number): Buffer => {
      const payload = Buffer.alloc(4);
      payload.writeUInt32BE(sizeBytes);
      return Buffer.concat(encodeFrame(frameKind.room, id, payload));
    };
    const of = (kind: 1 | 3 | 4, id: number): Buffer => Buffer.concat(encodeFrame(kind, id));
    /**
     * Returns why our side closes when the other side sends this, with one channel open that nobody
     * reads.
     */
    const fate = async (sent: Buffer): Promise<string | undefined> => {
      const [near, far] = await pair();
      const mux = createMux(near);
      mux.open().on("error", () => undefined);
      far.on("error", () => undefined).resume();
      far.end(sent);
      return (await mux.closed)?.message;
    };
    const tooMuch = Array.from({ length: channelRoomBytes / 1024 + 1 }, () => data(1, Buffer.alloc(1024)));

    it.each<[string, Buffer, RegExp]>([
      [
        "words instead of frames",
        Buffer.from("OCI runtime exec failed: no such file\r\n"),
        /not a mux: it sent "OCI runtime exec failed/,
      ],
      ["data before hello", data(1, Buffer.from("x")), /not a mux/],
      ["another version", Buffer.concat(encodeFrame(frameKind.hello, muxMagic, Buffer.from([9]))), /version 9/],
      ["hello twice", Buffer.concat([hello, hello]), /hello twice/],
      ["a kind that is none", Buffer.concat([hello, Buffer.from([77, 0, 0, 0, 1, 0, 0, 0])]), /kind 77/],
      ["a frame above the cap", Buffer.concat([hello, Buffer.from([2, 0, 0, 0, 1, 255, 255, 255])]), /16777215 bytes/],
      ["an empty frame of data", Buffer.concat([hello, Buffer.from([2, 0, 0, 0, 1, 0, 0, 0])]), /0 bytes/],
      ["room of a wrong size", Buffer.concat([hello, Buffer.from([5, 0, 0, 0, 1, 0, 0, 9])]), /9 bytes/],
      ["data of a channel that never was", Buffer.concat([hello, data(5, Buffer.from("x"))]), /no channel 5/],
      ["channel 0", Buffer.concat([hello, of(3, 0)]), /no channel 0/],
      ["a channel that it opens", Buffer.concat([hello, of(1, 2)]), /only we may/],
      ["an end twice", Buffer.concat([hello, of(3, 1), of(3, 1)]), /ended twice/],
      [
        "data after the end",
        Buffer.concat([hello, of(3, 1), data(1, Buffer.from("x"))]),
        /more than there is room for/,
      ],
      ["more than there is room for", Buffer.concat([hello, ...tooMuch]), /more than there is room for/],
      ["more room than there can be", Buffer.concat([hello, room(1, 2 ** 32 - 1)]), /more room than there is/],
    ])("that sends %s", async (_what, sent, problem) => {
      expect(await fate(sent)).toMatch(problem);
    });

    it("that sends anything at all", async () => {
      await fc.assert(
        fc.asyncProperty(fc.boolean(), fc.uint8Array({ maxLength: 400 }), async (greets, bytes) => {
          await fate(Buffer.concat([greets ? hello : Buffer.alloc(0), bytes]));
        }),
        { numRuns: 60 },
      );
    });

    it("that opens channels without end and never reads", async () => {
      const [near, far] = await pair();
      const mux = createMux(near, { onChannel: (channel) => channel.on("error", () => undefined) });
      far.on("error", () => undefined).pause();
      far.write(hello);
      const opens = (first: number): Buffer =>
        Buffer.concat(Array.from({ length: 10_000 }, (_, index) => of(1, first + index)));
      let isClosed = false;
      const closed = mux.closed.finally(() => {
        isClosed = true;
      });
      for (let first = 1; !isClosed && first < 5_000_000; first += 10_000) {
        if (!far.write(opens(first))) await Promise.race([once(far, "drain"), closed]);
      }
      expect((await closed)?.message).toMatch("does not read");
    });

    it("that sends the smallest possible frames", async () => {
      const [near, far] = await pair();
      const mux = createMux(near);
      const channel = mux.open();
      const tiny = Buffer.concat(Array.from({ length: channelRoomBytes }, () => data(1, Buffer.from("x"))));
      const before = process.memoryUsage().rss;
      far.resume().write(hello);
      await new Promise<void>((resolve) => far.write(tiny, () => resolve()));
      expect(process.memoryUsage().rss - before).toBeLessThan(50_000_000);
      far.write(of(3, 1));
      expect((await buffer(channel)).equals(Buffer.alloc(channelRoomBytes, "x"))).toBe(true);
    });
  });
});

/** Writes this many bytes, as fast as they are taken. */
function pour(channel: Duplex, sizeBytes: number): void {
  const chunk = Buffer.alloc(100_000, "x");
  let left = sizeBytes;
  const more = (): void => {
    while (left > 0) {
      left -= chunk.length;
      if (!channel.write(chunk)) {
        channel.once("drain", more);
        return;
      }
    }
    channel.end();
  };
  more();
}
