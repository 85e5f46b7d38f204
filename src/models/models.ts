import { randomBytes } from "node:crypto";
import { rm, stat } from "node:fs/promises";
import type { Server } from "node:http";
import { connect } from "node:net";
import { messageOf } from "../domain/errors.ts";
import type { IdSource } from "../domain/ids.ts";
import { parseModel } from "../domain/models.ts";
import type { Store } from "../store/port.ts";
import { createBackoff } from "./backoff.ts";
import { createLedger } from "./ledger.ts";
import type { Cassette, ModelProvider, ModelProxy, Models } from "./port.ts";
import { type PriceTable, priceOf } from "./prices.ts";
import { createProxyServer } from "./proxy.ts";
import { tokenOf } from "./token.ts";

export interface ModelsOptions {
  readonly store: Store;
  readonly ids: IdSource;
  readonly now: () => Date;
  readonly providers: readonly ModelProvider[];
  /** What a person says models cost. */
  readonly prices: PriceTable;
  readonly cassette: Cassette | null;
  readonly warn: (message: string) => void;
}

const takeOverMs = 500;

/** Models for agents: tokens, and the proxy that knows what they are worth. */
export function createModels(options: ModelsOptions): Models {
  const { store, providers, prices } = options;
  const ledger = createLedger(options);
  const backoff = createBackoff();
  let secret: Promise<string> | null = null;
  const secretOnce = (): Promise<string> => {
    secret ??= store.modelSecret(randomBytes(32).toString("base64url"));
    return secret;
  };
  return {
    tokenFor: async (kind, id, fence) => tokenOf(await secretOnce(), { kind, id, fence }),
    async listen(socketPath) {
      const { cassette, warn } = options;
      const server = createProxyServer({ ledger, secret: await secretOnce(), providers, backoff, cassette, warn });
      return holdSocket(server, socketPath, warn);
    },
    lacks(model) {
      const { provider } = parseModel(model ?? "");
      if (provider !== null && providers.some(({ name }) => name === provider)) return null;
      if (provider === null && providers.length > 0) return null;
      return provider === null ? "there is no key of any provider" : `there is no key for ${provider}`;
    },
    isPriced(model) {
      const { provider, model: name } = parseModel(model);
      return provider !== null && priceOf(provider, name, prices) !== null;
    },
  };
}

/** Listens on the socket as soon as nobody else answers there; one process of several does. */
function holdSocket(server: Server, path: string, warn: (message: string) => void): ModelProxy {
  let isClosed = false;
  let timer: NodeJS.Timeout | null = null;
  let mine: number | null = null;
  const look = async (): Promise<void> => {
    // Two that begin at once may both listen, the first one where nobody finds it any more.
    if (server.listening && (await inodeOf(path)) === mine) return;
    if (server.listening) await stopListening(server);
    if (isClosed || (await isAnswered(path))) return;
    await rm(path, { force: true });
    if (await listens(server, path)) mine = await inodeOf(path);
  };
  const turn = (): void => {
    look()
      .catch((error: unknown) => warn(`the model proxy cannot listen on ${path}: ${messageOf(error)}`))
      .finally(() => {
        if (!isClosed) timer = setTimeout(turn, takeOverMs).unref();
      });
  };
  turn();
  return {
    async close() {
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
      if (server.listening) await stopListening(server);
    },
  };
}

const inodeOf = (path: string): Promise<number | null> =>
  stat(path).then(
    ({ ino }) => ino,
    () => null, // Somebody removed it.
  );

/** False when another process was quicker. */
const listens = (server: Server, path: string): Promise<boolean> =>
  new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(path, () => resolve(true));
  });

function stopListening(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  return closed;
}

const isAnswered = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
