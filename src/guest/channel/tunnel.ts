import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GuestFault, messageOf } from "../faults.ts";
import type { Loopback } from "../isolation/loopback.ts";
import { joinConnections } from "./join.ts";

const connectTimeoutMs = 10_000;

/**
 * Joins a caller's connection to a TCP port on loopback: the job's own loopback, or the guest's.
 * Fails with 502 when nothing listens there.
 */
export async function openTunnel(
  { loopback, port }: { loopback: Loopback | null; port: number },
  caller: Duplex,
  head: Buffer,
): Promise<void> {
  const connectTo = async (host: string): Promise<Socket> =>
    loopback === null
      ? connectHere(port, host)
      : loopback.connect(port, host).catch((error) => Promise.reject(noListener(port, messageOf(error))));
  // A server on "localhost" may listen on only one of the two.
  const server = await connectTo("127.0.0.1").catch(() => connectTo("::1"));
  caller.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
  if (head.length > 0) server.write(head);
  joinConnections(caller, server);
}

const noListener = (port: number, reason: string): GuestFault =>
  new GuestFault(502, "no-listener", `nothing answers on port ${port}: ${reason}`);

function connectHere(port: number, host: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true, timeout: connectTimeoutMs });
    const fail = (reason: string): void => {
      socket.destroy();
      reject(noListener(port, reason));
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
