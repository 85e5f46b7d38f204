// A process that follows one build many times over raw sockets, because 200 parsing clients would
// take more of the machine than the server. argv: port, path, key, followers, events to wait for.
// It prints a line once every follower is connected, and another with its findings at the end.
import { connect, type Socket } from "node:net";

const [port, path = "", key = "", followers, events] = process.argv.slice(2);
const expected = Number(events);
const now = (): number => performance.timeOrigin + performance.now();
/** The ids in the order of the first follower that saw them; every other must see the same. */
const ids: number[] = [];
/** When the last follower saw each event. */
const seenAt = new Float64Array(expected);
const count = Number(followers);
const sockets: Socket[] = [];
let connected = 0;
let complete = 0;
let wrong = 0;
let cpu = process.cpuUsage();

function follow(): Socket {
  // HTTP/1.0 has no chunks, so the socket's bytes are those of the stream.
  const request = `GET ${path} HTTP/1.0\r\nhost: 127.0.0.1:${port}\r\nauthorization: Bearer ${key}\r\n\r\n`;
  const socket = connect({ port: Number(port), host: "127.0.0.1" }, () => socket.write(request));
  let rest: Buffer = Buffer.alloc(0);
  let isStreaming = false;
  let seen = 0;
  socket.on("data", (chunk) => {
    const at = now();
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    if (!isStreaming) {
      const end = bytes.indexOf("\r\n\r\n");
      if (end >= 0) {
        begin(bytes.toString("latin1", 0, end));
        start = end + 4;
        isStreaming = true;
      }
    }
    for (let end = bytes.indexOf("\n\n", start); isStreaming && end >= 0; end = bytes.indexOf("\n\n", start)) {
      // "id: 123\n…"; a heartbeat begins with a colon.
      if (bytes[start] === 0x69) take(seen++, idAt(bytes, start + 4), at);
      start = end + 2;
    }
    rest = bytes.subarray(start);
  });
  socket.on("close", () => {
    if (complete < count) finish("a stream ended early");
  });
  return socket;
}

function begin(head: string): void {
  if (!/^HTTP\/1\.\d 200 /.test(head)) finish(head.split("\r\n")[0] ?? "no answer");
  connected += 1;
  if (connected === count) {
    cpu = process.cpuUsage();
    process.stdout.write(`${JSON.stringify({ connected })}\n`);
  }
}

function idAt(bytes: Buffer, from: number): number {
  let id = 0;
  for (let at = from; bytes[at] !== 0x0a; at += 1) id = id * 10 + bytes[at]! - 0x30;
  return id;
}

function take(position: number, id: number, at: number): void {
  ids[position] ??= id;
  if (ids[position] !== id || position >= expected) wrong += 1;
  seenAt[position] = Math.max(seenAt[position] ?? 0, at);
  if (position === expected - 1) complete += 1;
  if (complete === count) finish(null);
}

function finish(fault: string | null): never {
  const { user, system } = process.cpuUsage(cpu);
  const found = { fault, wrong, seenAt: [...seenAt], cpuMs: (user + system) / 1_000 };
  process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit());
  for (const socket of sockets) socket.destroy();
  throw new Error("finished");
}

process.on("uncaughtException", (error) => {
  if (error.message !== "finished") throw error;
});
for (let at = 0; at < count; at += 1) sockets.push(follow());
