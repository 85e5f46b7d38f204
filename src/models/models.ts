import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { chmod, type FileHandle, open, rm, stat } from "node:fs/promises";
import type { Server } from "node:http";
import { connect } from "node:net";
import { basename, dirname } from "node:path";
import { messageOf } from "../domain/errors.ts";
import type { IdSource } from "../domain/ids.ts";
import { parseModel } from "../domain/models.ts";
import type { Store } from "../store/port.ts";
import { createBackoff } from "./backoff.ts";
import { createLedger } from "./ledger.ts";
import type { Cassette, ModelProvider, Models } from "./port.ts";
import { type PriceList, shippedPrices } from "./price-list.ts";
import { familyPriceIn, type Price, type PriceTable, priceIn } from "./prices.ts";
import { createProxyServer, type ProxyServer } from "./proxy.ts";
import { tokenOf } from "./token.ts";

export interface ModelsOptions {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  readonly providers: readonly ModelProvider[];
  /** Prices set by a person. */
  readonly prices: PriceTable;
  /** Published prices; default: the list that came with this version. */
  readonly published?: PriceList;
  readonly cassette: Cassette | null;
  readonly warn: (message: string) => void;
  /** How long to keep listening for usage after an agent hung up; default: the usual time. */
  readonly drainMs?: number;
}

const takeOverMs = 500;

/**
 * Finds the price of a model: a person's price, or else the published one. A model newer than the
 * list is priced like the nearest one of its family, with one warning. The price of a subscription
 * is unknown.
 */
function createPricing({ prices, published = shippedPrices, providers, warn }: ModelsOptions, told: Set<string>) {
  return (provider: string, model: string): Price | null => {
    const own = priceIn(prices, provider, model);
    if (own !== null) return own;
    if (providers.find(({ name }) => name === provider)?.isSubscription === true) return null;
    const exact = priceIn(published.prices, provider, model);
    if (exact !== null) return exact;
    const alike = familyPriceIn([...prices, ...published.prices], provider, model);
    const name = `${provider}:${model}`;
    if (alike !== null && !told.has(name)) {
      warn(
        `the price of ${name} is unknown, so it is counted like ${alike.model} (prices of ${published.date}): \`wavesmith prices update\` fetches newer ones, WAVESMITH_PRICES is yours`,
      );
    }
    told.add(name);
    return alike;
  };
}

/** Creates tokens for agents and the proxy that accepts them. */
export function createModels(options: ModelsOptions): Models {
  const { store, providers } = options;
  const told = new Set<string>();
  const known = createPricing(options, told);
  const ledger = createLedger({ ...options, priceOf: known });
  const backoff = createBackoff();
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
        // No process answers there, so its open calls are dead.
        await ledger.settleLeft(projectId);
        const drainMs = options.drainMs ?? null;
        return createProxyServer({
          ledger,
          secret: await secretOnce(),
          providers,
          backoff,
          cassette,
          drainMs,
          warn,
          told,
        });
      };
      sockets.set(socketPath, holdSocket(make, socketPath, warn));
    },
    async close() {
      isClosed = true;
      for (const socket of sockets.values()) await socket.close();
    },
    lacks(model) {
      const { provider } = parseModel(model ?? "");
      if (provider !== null && providers.some(({ name }) => name === provider)) return null;
      if (provider === null && providers.length > 0) return null;
      return provider === null ? "there is no key of any provider" : `there is no key for ${provider}`;
    },
    isPriced(model) {
      const { provider, model: name } = parseModel(model);
      return provider !== null && known(provider, name) !== null;
    },
  };
}

interface HeldSocket {
  close(): Promise<void>;
}

/** Listens on the socket as soon as no other process answers there; only one process does. */
function holdSocket(make: () => Promise<ProxyServer>, place: string, warn: (message: string) => void): HeldSocket {
  let isClosed = false;
  let timer: NodeJS.Timeout | null = null;
  let server: ProxyServer | null = null;
  let mine: number | null = null;
  let folder: FileHandle | null = null;
  const look = async (): Promise<void> => {
    folder ??= await open(dirname(place), constants.O_RDONLY | constants.O_DIRECTORY);
    // A socket's path is limited to about 100 bytes. A path through an open folder is short at any
    // depth.
    const path = process.platform === "linux" ? `/proc/self/fd/${folder.fd}/${basename(place)}` : place;
    // Two processes that start at once may both listen, but then clients cannot find the first.
    if (server !== null && (await inodeOf(path)) === mine) return;
    if (server !== null) await stopListening(server);
    server = null;
    if (isClosed || (await isAnswered(path))) return;
    const made = await make();
    await rm(path, { force: true });
    if (!(await listens(made.server, path))) return;
    server = made;
    // If we are root, jobs run as another user. The token is what protects the socket.
    await chmod(path, 0o666);
    mine = await inodeOf(path);
  };
  let turn: Promise<void> = Promise.resolve();
  const again = (): void => {
    turn = look()
      .catch((error: unknown) => warn(`the model proxy cannot listen on ${place}: ${messageOf(error)}`))
      .then(() => {
        if (!isClosed) timer = setTimeout(again, takeOverMs).unref();
      });
  };
  again();
  return {
    async close() {
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
      await turn;
      if (server !== null) await stopListening(server);
      await folder?.close();
    },
  };
}

const inodeOf = (path: string): Promise<number | null> =>
  stat(path).then(
    ({ ino }) => ino,
    () => null, // Somebody removed it.
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
