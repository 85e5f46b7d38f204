import { createServer } from "node:net";

export interface PortSource {
  /** Returns free TCP ports on 127.0.0.1, none of which this guest has handed out before. */
  allocate(count: number): Promise<number[]>;
}

/** Creates a source of ports that the system reports as free. */
export function createPortSource(): PortSource {
  const handedOut = new Set<number>();
  const allocateOne = async (): Promise<number> => {
    for (;;) {
      const port = await freePort();
      if (handedOut.has(port)) continue;
      handedOut.add(port);
      return port;
    }
  };
  return {
    allocate: async (count) => {
      const ports: number[] = [];
      while (ports.length < count) ports.push(await allocateOne());
      return ports;
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
