import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { createGuestClient } from "../src/sandbox/guest/guest-client.ts";
import { connectMux } from "../src/sandbox/guest/mux.ts";
import type { GuestClient } from "../src/sandbox/port.ts";
import { type GuestFixture, job, outcome, shell, startGuest } from "../tests/contract/guest-fixture.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";

const megabyte = 1_000_000;

export const sandboxGuest: Benchmark = {
  name: "sandbox-guest",
  about: "the guest over many channels of one stream, as through `docker exec`, against its own socket",
  async run({ smoke }) {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-bench-"));
    const muxSocket = join(folder, "run", "mux.sock");
    const guest = await startGuest({ isolation: "sweep", folder, args: ["--mux-socket", muxSocket] });
    const [program, ...args] = existsSync(socat)
      ? [socat, "-", `UNIX-CONNECT:${muxSocket}`]
      : [process.execPath, "-e", relay, muxSocket];
    const bridge = spawn(program!, args, { stdio: ["pipe", "pipe", "inherit"] });
    const mux = connectMux(Duplex.from({ readable: bridge.stdout, writable: bridge.stdin }));
    try {
      const client = createGuestClient({ connect: mux.open, name: "the bench's guest" });
      return [...(await latencies(guest, client, smoke)), ...(await memory(guest, client, smoke))];
    } finally {
      mux.close();
      await ended(bridge);
      await guest.stop();
    }
  },
};

// Like `docker exec -i … socat`: another process whose standard streams are joined to the socket.
// Slower where there is no socat.
const socat = "/usr/bin/socat";
const relay = `
  const socket = require("node:net").connect({ path: process.argv[1], allowHalfOpen: true });
  process.stdin.pipe(socket).pipe(process.stdout);
  for (const stream of [process.stdin, process.stdout, socket]) stream.on("error", () => process.exit());
  socket.on("close", () => process.exit());`;

async function latencies(guest: GuestFixture, client: GuestClient, smoke: boolean): Promise<Finding[]> {
  const content = Buffer.alloc(1_000, "x");
  const command = { argv: ["true"], cwd: "", env: {}, writable: [], timeoutMs: 60_000, maxBytes: 1_000 };
  const spawned = async (): Promise<void> => {
    await new Promise((resolve) => spawn("true", { stdio: "ignore" }).on("close", resolve));
  };
  const median = await interleaved(smoke ? 2 : 150, {
    spawn: spawned,
    execDirect: async () => void (await guest.client.exec(command)),
    execMux: async () => void (await client.exec(command)),
    writeDirect: () => guest.client.writeFile("file", content),
    writeMux: () => client.writeFile("file", content),
    readDirect: async () => void (await guest.client.readFile("file")),
    readMux: async () => void (await client.readFile("file")),
  });
  const direct = (value: number) => ({ what: "over its own socket", value });
  return [
    {
      what: "exec of `true`, over its own socket",
      ours: median.execDirect,
      unit: "ms",
      floor: { what: "spawn", value: median.spawn },
      limit: null,
    },
    {
      what: "exec of `true`, over one stream",
      ours: median.execMux,
      unit: "ms",
      floor: direct(median.execDirect),
      limit: 1.3,
    },
    { what: "write of 1 KB, over one stream", ours: median.writeMux, unit: "ms", floor: null, limit: 2 },
    {
      what: "write of 1 KB, over one stream",
      ours: median.writeMux,
      unit: "ms",
      floor: direct(median.writeDirect),
      limit: null,
    },
    { what: "read of 1 KB, over one stream", ours: median.readMux, unit: "ms", floor: null, limit: 2 },
    {
      what: "read of 1 KB, over one stream",
      ours: median.readMux,
      unit: "ms",
      floor: direct(median.readDirect),
      limit: null,
    },
  ];
}

/** Measures 300 MB of one program's output, both read in pieces and not read at all. */
async function memory(guest: GuestFixture, client: GuestClient, smoke: boolean): Promise<Finding[]> {
  const sizeBytes = (smoke ? 3 : 300) * megabyte;
  const before = process.memoryUsage().rss;
  const guestBefore = guestMemory(guest);
  let most = before;
  const look = (): void => {
    most = Math.max(most, process.memoryUsage().rss);
  };
  const spec = job(shell(`head -c ${sizeBytes} /dev/zero`, { outputLimitBytes: sizeBytes, timeoutMs: 600_000 }));
  await client.startJob("output", spec);
  for (let offset = 0, isOver = false; !isOver; look()) {
    const read = await client.readOutput("output", { offset, limitBytes: 256 * 1024, waitMs: 5_000 });
    offset = read.nextOffset;
    isOver = read.ended;
  }
  await outcome(client, "output");
  const read = most - before;
  most = process.memoryUsage().rss;
  const unreadBefore = most;
  await client.startJob("file", job(shell(`head -c ${sizeBytes} /dev/zero > zeros`)));
  await outcome(client, "file");
  const unread = await client.pack("");
  for (let asked = 0; asked < 200; asked += 1, look()) await client.stat("zeros");
  const held = most - unreadBefore;
  unread.destroy();
  const megabytes = (bytes: number) => Math.max(0, bytes) / megabyte;
  return [
    {
      what: `${sizeBytes / megabyte} MB of output read: memory here`,
      ours: megabytes(read),
      unit: "MB",
      floor: null,
      limit: 50,
    },
    {
      what: `${sizeBytes / megabyte} MB not read while others are served: memory here`,
      ours: megabytes(held),
      unit: "MB",
      floor: null,
      limit: 50,
    },
    {
      what: "both: memory of the guest",
      ours: megabytes(guestMemory(guest) - guestBefore),
      unit: "MB",
      floor: null,
      limit: null,
    },
  ];
}

/** Returns the guest's peak memory so far. */
function guestMemory(guest: GuestFixture): number {
  const status = readFileSync(`/proc/${guest.process.pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill();
  await exited;
}
