// The link to a guest: one `docker exec` per sandbox and process, with as many connections over it
// as needed. It opens at its first use, and again when it broke.
import { messageOf, WavesmithError } from "../../../../domain/errors.ts";
import { createGuestClient } from "../../../guest/guest-client.ts";
import { connectMux, type MuxConnection } from "../../../guest/mux.ts";
import type { GuestClient, GuestHealth } from "../../../port.ts";
import { StandardStreams } from "../engine/demux.ts";
import type { DockerEngine } from "../engine/engine-calls.ts";
import { muxSocket } from "./container-spec.ts";

export interface GuestLink {
  readonly guest: GuestClient;
  /** The last health report, and when it came. */
  answered: { readonly health: GuestHealth; readonly atMs: number } | null;
  close(): void;
}

/** socat waits inside for a guest that is starting, which is quicker than polling the engine. */
const tries = { count: 1_500, seconds: 0.02 } as const;

/**
 * Creates the link to the guest of one start of a container. `name` is the sandbox's, for messages.
 */
export function createGuestLink(engine: DockerEngine, containerId: string, name: string): GuestLink {
  let current: Promise<MuxConnection> | null = null;
  let isClosed = false;
  const connection = (): Promise<MuxConnection> => {
    if (current !== null) return current;
    const made = connectTo(engine, containerId, name);
    const forget = (): void => {
      if (current === made) current = null;
    };
    current = made;
    made.then(({ closed }) => closed.then(forget), forget);
    return made;
  };
  return {
    answered: null,
    guest: createGuestClient({
      name,
      connect: async () => {
        if (isClosed)
          throw new WavesmithError("sandbox-unavailable", `sandbox ${name} was stopped`, { retryable: true });
        return (await connection()).open();
      },
    }),
    close() {
      isClosed = true;
      current?.then(
        (open) => open.close(),
        () => undefined, // There is nothing to close.
      );
    },
  };
}

async function connectTo(engine: DockerEngine, containerId: string, name: string): Promise<MuxConnection> {
  const exec = await engine.call(`enter the container of ${name}`, (docker, limited) =>
    docker.getContainer(containerId).exec({
      Cmd: ["socat", "-b65536", "-", `UNIX-CONNECT:${muxSocket},retry=${tries.count},interval=${tries.seconds}`],
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: false,
      ...limited,
    }),
  );
  const socket = await engine.hijack(`enter the container of ${name}`, (_, limited) =>
    exec.start({ hijack: true, stdin: true, Tty: false, ...limited } as Parameters<typeof exec.start>[0]),
  );
  const streams = new StandardStreams(socket);
  const mux = connectMux(streams);
  return {
    ...mux,
    open: () =>
      mux.open().catch((error: unknown) => {
        const complaint = streams.complaint();
        throw complaint === ""
          ? error
          : new WavesmithError("sandbox-unavailable", `${messageOf(error)}: ${complaint}`, { retryable: true });
      }),
  };
}
