// The way out of a sandbox that has no network: ports on loopback that lead to sockets of the host,
// in a folder which nothing inside the sandbox can change. The host decides what may be reached.
// This file only connects the two, and sets the environment by which programs find the ports
// without any settings of their own.
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { holdConnection } from "../channel/alive.ts";
import { joinConnections } from "../channel/join.ts";
import { messageOf, systemCode } from "../faults.ts";
import type { GuestHealth } from "../protocol.ts";
import type { NetworkSetting } from "../settings.ts";
import type { Door } from "./loopback.ts";
import { createNoNetwork } from "./no-network.ts";

/** The ports used when the sandbox has a network namespace, so that they are always the same. */
const fixedPorts = { proxy: 28_128, model: 28_129 } as const;
const connectTimeoutMs = 3_000;
/**
 * The model proxy may be killed and come back; a call waits for it as long as the guest itself
 * does.
 */
const modelTimeoutMs = 30 * 60_000;
const connectPauseMs = 100;
/** Variables of the guest's own environment that say which certificates to trust. */
const trustNames = [
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "PIP_CERT",
  "GIT_SSL_CAINFO",
] as const;

export interface Egress {
  /** The ports that lead out, to be opened on other loopbacks than the guest's own. */
  readonly doors: readonly Door[];
  /** Returns the ports and the refused hosts, as the health answer reports them. */
  state(): NonNullable<GuestHealth["egress"]>;
  /** The environment for every program that is started. */
  readonly env: Readonly<Record<string, string>>;
  close(): void;
}

/** Listens on loopback and forwards to the sockets in `folder`, which need not exist yet. */
export async function openEgress(folder: string, network: NetworkSetting): Promise<Egress> {
  const isOwn = network !== "open";
  const model = await listenAndForward(join(folder, "model.sock"), isOwn ? fixedPorts.model : 0, modelTimeoutMs);
  const proxy = network === "allowlist" ? await listenAndForward(join(folder, "proxy.sock"), fixedPorts.proxy) : null;
  const alive = network === "allowlist" ? holdConnection(join(folder, "alive.sock")) : null;
  const none = network === "none" ? createNoNetwork() : null;
  if (none !== null) await listenNear(none.server, fixedPorts.proxy);
  const ports = { proxyPort: proxy === null ? null : portOf(proxy), modelPort: portOf(model) };
  const servers = [model, proxy, none?.server].filter((server) => server !== undefined && server !== null);
  return {
    doors: servers.map((server) => ({ port: portOf(server), server })),
    state: () => (none === null ? ports : { ...ports, refused: none.refused() }),
    env: {
      ...proxyEnvironment(none === null ? ports.proxyPort : portOf(none.server)),
      WAVESMITH_MODEL_URL: `http://127.0.0.1:${ports.modelPort}`,
    },
    close: () => {
      for (const closable of [model, proxy, alive, none?.server]) closable?.close();
    },
  };
}

/**
 * Returns the variables of the guest's own environment that say which certificates to trust, for
 * every program that is started.
 */
export function trustEnvironment(own: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(trustNames.flatMap((name) => (own[name] ? [[name, own[name]]] : [])));
}

function proxyEnvironment(port: number | null): Record<string, string> {
  if (port === null) return {};
  const url = `http://127.0.0.1:${port}`;
  const direct = "localhost,127.0.0.1,::1";
  // Both spellings: curl reads http_proxy only in lower case, others read only the upper case.
  return {
    HTTP_PROXY: url,
    http_proxy: url,
    HTTPS_PROXY: url,
    https_proxy: url,
    NO_PROXY: direct,
    no_proxy: direct,
    // Node's own fetch, from Node 22.21 and 24 on.
    NODE_USE_ENV_PROXY: "1",
  };
}

async function listenAndForward(socketPath: string, port: number, timeoutMs = connectTimeoutMs): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (caller) => {
    connectToHost(socketPath, timeoutMs, () => caller.destroyed).then(
      (host) => joinConnections(caller, host),
      (error) => refuseConnection(caller, `${socketPath} of this sandbox does not answer: ${messageOf(error)}`),
    );
    caller.on("error", () => caller.destroy());
  });
  await listenNear(server, port);
  return server;
}

/** Listens on `port`, or on any free port when it is taken. */
async function listenNear(server: Server, port: number): Promise<void> {
  await listen(server, port).catch((error) => {
    if (systemCode(error) !== "EADDRINUSE" || port === 0) throw error;
    return listen(server, 0);
  });
  server.unref();
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** Connects to a socket of the host, which may be in the middle of being replaced. */
async function connectToHost(path: string, timeoutMs: number, isOver: () => boolean): Promise<Socket> {
  for (const deadline = performance.now() + timeoutMs; ; ) {
    try {
      return await connectOnce(path);
    } catch (error) {
      const code = systemCode(error);
      if ((code !== "ENOENT" && code !== "ECONNREFUSED") || performance.now() > deadline || isOver()) throw error;
      await delay(connectPauseMs);
    }
  }
}

function connectOnce(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, allowHalfOpen: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}

/** Answers with the reason, because the callers of both ports speak HTTP. */
function refuseConnection(caller: Socket, why: string): void {
  const body = `${why}\n`;
  const headers = `Content-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n`;
  caller.resume();
  caller.end(`HTTP/1.1 502 Bad Gateway\r\n${headers}\r\n${body}`);
}
