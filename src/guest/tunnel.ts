import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GuestFault } from "./faults.ts";
import { joinConnections } from "./join.ts";

const connectMs = 10_000;

/** Joins a caller's connection to a TCP port on loopback. Fails with 502 when nobody listens there. */
export async function openTunnel(port: number, caller: Duplex, head: Buffer): Promise<void> {
  // A server on "localhost" may listen on one of the two only.
  const server = await connectTo(port, "127.0.0.1").catch(() => connectTo(port, "::1"));
  caller.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
  if (head.length > 0) server.write(head);
  joinConnections(caller, server);
}

function connectTo(port: number, host: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true, timeout: connectMs });
    const fail = (reason: string): void => {
      socket.destroy();
      reject(new GuestFault(502, "no-listener", `nothing answers on port ${port}: ${reason}`));
    };
    const onError = (error: Error): void => fail(error.message);
    socket.once("timeout", () => fail("timed out"));
    socket.once("error", onError);
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.setNoDelay(true);
      socket.off("error", onError);
      resolve(socket);
    });
  });
}
