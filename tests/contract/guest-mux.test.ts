import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Duplex, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGuestClient } from "../../src/sandbox/guest/guest-client.ts";
import { connectToSocket } from "../../src/sandbox/guest/guest-socket.ts";
import { connectMux, type MuxConnection } from "../../src/sandbox/guest/mux.ts";
import type { GuestClient } from "../../src/sandbox/port.ts";
import {
  eventually,
  type GuestFixture,
  job,
  outcome,
  outputOf,
  processesSaying,
  shell,
  sleepToken,
  startGuest,
} from "./guest-fixture.ts";

describe("a guest reached over one stream", () => {
  let guest: GuestFixture;
  let mux: MuxConnection;
  let client: GuestClient;
  const muxSocket = (): string => join(guest.folder, "run", "mux.sock");
  const connect = async (): Promise<void> => {
    mux = connectMux(await connectToSocket(muxSocket()));
    client = createGuestClient({ connect: mux.open, name: "sbx_test" });
  };
  beforeEach(async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
    guest = await startGuest({ isolation: "sweep", folder, args: ["--mux-socket", join(folder, "run", "mux.sock")] });
    await connect();
  });
  afterEach(async () => {
    mux.close();
    await guest.stop();
  });

  it("works just as over its own socket", async () => {
    const large = Buffer.alloc(3_000_000, "0123456789");
    await client.writeFile("large", large);
    expect((await client.readFile("large"))?.equals(large)).toBe(true);
    await client.startJob("job", job(shell("echo one; echo two", {})));
    expect((await outcome(client, "job")).status).toBe("passed");
    expect(await outputOf(client, "job")).toBe("one\ntwo\n");
    const tar = await buffer(await client.pack(""));
    await client.unpack("copy", Readable.from([tar]));
    expect((await client.stat("copy/large"))?.sizeBytes).toBe(large.length);
    await expect(client.list("nowhere")).rejects.toMatchObject({ code: "not-found" });
  });

  it("answers many callers at once, each with its own answer", async () => {
    const asked = Array.from({ length: 60 }, async (_, index) => {
      await client.writeFile(`file-${index}`, `content ${index}`);
      return (await client.readFile(`file-${index}`))?.toString();
    });
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 60 }, (_, index) => `content ${index}`));
  });

  it("answers while another caller does not read its answer", async () => {
    await client.startJob("filler", job(shell("head -c 60000000 /dev/zero > filler")));
    await outcome(client, "filler");
    const unread = await client.pack("");
    expect((await client.exec(echo("still here"))).stdout).toBe("still here\n");
    let sizeBytes = 0;
    for await (const chunk of unread) sizeBytes += (chunk as Buffer).length;
    expect(sizeBytes).toBeGreaterThan(60_000_000);
  });

  it("tunnels to a port, with each direction ended by itself", async () => {
    const [port = 0] = await client.allocatePorts(1);
    await expect(client.tunnel(port)).rejects.toMatchObject({ code: "sandbox-unavailable" });
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.write("welcome ");
      socket.pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    try {
      const tunnel = await client.tunnel(port);
      const sent = Buffer.alloc(2_000_000, "x");
      tunnel.end(sent);
      expect((await buffer(tunnel)).length).toBe("welcome ".length + sent.length);
    } finally {
      server.close();
    }
  });

  it("ends a command whose caller goes away, and no other", async () => {
    const token = sleepToken();
    const argv = ["sh", "-c", `touch begun; exec sleep ${token}`];
    const left = client.exec({ ...echo(""), argv, timeoutMs: 100_000 });
    const refused = expect(left).rejects.toMatchObject({ code: "sandbox-unavailable", retryable: true });
    await eventually(async () => (await client.stat("begun")) !== null, "the command has begun");
    await client.startJob("job", job(shell("while [ ! -e go ]; do sleep 0.05; done")));
    mux.close();
    await refused;
    await expect(client.health()).rejects.toMatchObject({ code: "sandbox-unavailable", retryable: true });
    await connect();
    await eventually(() => processesSaying(token).length === 0, "it has ended");
    await client.writeFile("go", "");
    expect((await outcome(client, "job")).status).toBe("passed");
  });

  it("continues after a connection that spoke another protocol", async () => {
    const odd = await connectToSocket(muxSocket());
    odd.on("error", () => undefined).end("GET / HTTP/1.1\r\n\r\n");
    odd.resume();
    await new Promise((resolve) => odd.on("close", resolve));
    expect((await client.exec(echo("fine"))).stdout).toBe("fine\n");
  });

  it("says why when something other than a guest answers", async () => {
    const program = spawn("sh", ["-c", "echo 'OCI runtime exec failed: exec failed'; exec cat > /dev/null"], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    program.stdin.on("error", () => undefined);
    const other = connectMux(Duplex.from({ readable: program.stdout, writable: program.stdin }));
    expect((await other.closed)?.message).toMatch(/not a mux: it sent "OCI runtime exec failed: exec failed"/);
  });

  it("lets a process without an open request end", async () => {
    const script = `
      import { connectMux } from ${JSON.stringify(join(import.meta.dirname, "../../src/sandbox/guest/mux.ts"))};
      import { createGuestClient } from ${JSON.stringify(join(import.meta.dirname, "../../src/sandbox/guest/guest-client.ts"))};
      import { connect } from "node:net";
      const mux = connectMux(connect(${JSON.stringify(muxSocket())}));
      const health = await createGuestClient({ connect: mux.open }).health();
      console.log(health.protocol);`;
    const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      cwd: join(import.meta.dirname, "../.."),
      stdio: ["ignore", "pipe", "inherit"],
    });
    const said = buffer(child.stdout);
    expect(await new Promise((resolve) => child.on("exit", resolve))).toBe(0);
    expect((await said).toString()).toBe("1\n");
  });
});

const echo = (text: string) => ({
  argv: ["echo", text],
  cwd: "",
  env: {},
  writable: [],
  timeoutMs: 20_000,
  maxBytes: 1_000,
});
