import { createConnection, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";

/**
 * A proxy to a Postgres server whose connection can be cut and restored, as when the server is
 * stopped and started.
 */
export interface DatabaseProxy {
  readonly url: string;
  /** Ends every connection and accepts no more. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  close(): Promise<void>;
}

/** Listens on loopback in front of the server of `url`, which may name a socket's folder. */
export async function openDatabaseProxy(url: string): Promise<DatabaseProxy> {
  const target = new URL(url);
  const folder = target.searchParams.get("host");
  const port = Number(target.port || "5432");
  const connect = () =>
    folder?.startsWith("/") === true
      ? createConnection(join(folder, `.s.PGSQL.${target.searchParams.get("port") ?? port}`))
      : createConnection(port, target.hostname);
  const sockets = new Set<Socket>();
  let server: Server | null = null;
  let listensOn = 0;
  const relay = (client: Socket): void => {
    const upstream = connect();
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  };
  const proxy: DatabaseProxy = {
    url: "",
    async cut() {
      const closing = server;
      server = null;
      for (const socket of sockets) socket.destroy();
      if (closing !== null) await new Promise((done) => closing.close(done));
    },
    async mend() {
      const fresh = createServer(relay);
      await new Promise<void>((ready) => fresh.listen(listensOn, "127.0.0.1", ready));
      listensOn = (fresh.address() as { port: number }).port;
      server = fresh;
    },
    close: () => proxy.cut(),
  };
  await proxy.mend();
  const shown = new URL(url.replace(/^(postgres(?:ql)?):\/\/([^/@]*@)?[^/]*\//, "$1://$2127.0.0.1/"));
  shown.search = "";
  shown.port = String(listensOn);
  return Object.assign(proxy, { url: shown.href });
}
