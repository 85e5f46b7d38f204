import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { chmod, type FileHandle, open, rm, stat } from "node:fs/promises";
import type { Server } from "node:http";
import { connect } from "node:net";
import { basename, dirname } from "node:path";
import type { TenantLimits } from "../domain/access.ts";
import { messageOf } from "../domain/errors.ts";
import type { IdSource } from "../domain/ids.ts";
import type { Store } from "../store/port.ts";
import { createModelLedger } from "./budget/ledger.ts";
import { createBackoff } from "./call/backoff.ts";
import { createFindLimits } from "./limits.ts";
import { createOffer, type OfferOptions } from "./offer.ts";
import type { Cassette, Models } from "./port.ts";
import { createProxyServer, type ProxyServer } from "./proxy.ts";
import { tokenOf } from "./token.ts";

export interface ModelsOptions extends OfferOptions {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  /** The limits of tenants that have no own ones; default: none. */
  readonly tenantLimits?: TenantLimits;
  readonly cassette: Cassette | null;
  /** How long to keep listening for usage after an agent hung up; default: the usual time. */
  readonly drainMs?: number;
  /** How long a call is repeated while its provider fails; default: four minutes. */
  readonly patienceMs?: number;
}

const usualPatienceMs = 4 * 60_000;

const takeOverMs = 500;

/** Creates tokens for agents and the proxy that accepts them. */
export function createModels(options: ModelsOptions): Models {
  const { store, providers } = options;
  const shownWarnings = new Set<string>();
  const offer = createOffer(options, shownWarnings);
  const ledger = createModelLedger({ ...options, priceOf: offer.priceOf });
  const backoff = createBackoff();
  const findLimits = createFindLimits(providers);
  const sockets = new Map<string, HeldSocket>();
  let isClosed = false;
  let secret: Promise<string> | null = null;
  const secretOnce = (): Promise<string> => {
    secret ??= store.modelSecret(randomBytes(32).toString("base64url"));
    return secret;
  };
  return {
    tokenFor: async (kind, id, fence) => tokenOf(await secretOnce(), { kind, id, fence }),
    listen(socketPath, projectId) {
      if (sockets.has(socketPath) || isClosed) return;
      const { cassette, warn } = options;
      const make = async (): Promise<ProxyServer> => {
        // No process answers on this socket, so the project's open calls are dead.
        await ledger.settleLeft(projectId);
        const drainMs = options.drainMs ?? null;
        return createProxyServer({
          ledger,
          secret: await secretOnce(),
          providers,
          backoff,
          findLimits,
          cassette,
          drainMs,
          patienceMs: options.patienceMs ?? usualPatienceMs,
          warn,
          shownWarnings: shownWarnings,
        });
      };
      sockets.set(socketPath, holdSocket(make, socketPath, warn));
    },
    unfinished: (ownerId) => ledger.unfinished(ownerId),
    async close() {
      isClosed = true;
      for (const socket of sockets.values()) await socket.close();
    },
    async countLeft() {
      await Promise.all([...sockets.values()].map((socket) => socket.countLeft()));
    },
    lacks: offer.lacks,
    isPriced: offer.isPriced,
  };
}

interface HeldSocket {
  close(): Promise<void>;
  countLeft(): Promise<void>;
}

/** Listens on the socket as soon as no other process answers there, so that only one does. */
function holdSocket(make: () => Promise<ProxyServer>, place: string, warn: (message: string) => void): HeldSocket {
  let isClosed = false;
  let timer: NodeJS.Timeout | null = null;
  let server: ProxyServer | null = null;
  let ownInode: number | null = null;
  let folder: FileHandle | null = null;
  const checkSocket = async (): Promise<void> => {
    folder ??= await open(dirname(place), constants.O_RDONLY | constants.O_DIRECTORY);
    // A socket's path is limited to about 100 bytes. A path through an open folder is short at any
    // depth.
    const path = process.platform === "linux" ? `/proc/self/fd/${folder.fd}/${basename(place)}` : place;
    // Two processes that start at once may both listen, but then clients cannot find the first.
    if (server !== null && (await inodeOf(path)) === ownInode) return;
    if (server !== null) await stopListening(server);
    server = null;
    if (isClosed || (await isAnswered(path))) return;
    const newServer = await make();
    await rm(path, { force: true });
    if (!(await listens(newServer.server, path))) return;
    server = newServer;
    // If we are root, jobs run as another user. The token is what protects the socket.
    await chmod(path, 0o666);
    ownInode = await inodeOf(path);
  };
  let lastCheck: Promise<void> = Promise.resolve();
  const checkAgain = (): void => {
    lastCheck = checkSocket()
      .catch((error: unknown) => warn(`the model proxy cannot listen on ${place}: ${messageOf(error)}`))
      .then(() => {
        if (!isClosed) timer = setTimeout(checkAgain, takeOverMs).unref();
      });
  };
  checkAgain();
  return {
    countLeft: async () => server?.countLeft(),
    async close() {
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
      await lastCheck;
      if (server !== null) await stopListening(server);
      await folder?.close();
    },
  };
}

const inodeOf = (path: string): Promise<number | null> =>
  stat(path).then(
    ({ ino }) => ino,
    () => null, // another process removed it
  );

/** Returns false when another process was quicker. */
const listens = (server: Server, path: string): Promise<boolean> =>
  new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(path, () => resolve(true));
  });

/** Resolves when every open call is settled. */
async function stopListening({ server, counted }: ProxyServer): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
  await counted();
}

const isAnswered = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
