import { createServer } from "node:net";

export interface Ports {
  /** Free TCP ports on 127.0.0.1, none of which this guest has handed out before. */
  allocate(count: number): Promise<number[]>;
}

/** Hands out ports that the system says are free. */
export function createPorts(): Ports {
  const handedOut = new Set<number>();
  const one = async (): Promise<number> => {
    for (;;) {
      const port = await freePort();
      if (handedOut.has(port)) continue;
      handedOut.add(port);
      return port;
    }
  };
  return {
    allocate: async (count) => {
      const found: number[] = [];
      while (found.length < count) found.push(await one());
      return found;
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
