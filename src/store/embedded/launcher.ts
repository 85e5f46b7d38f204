import { open } from "node:fs/promises";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { installBinaries } from "./binaries.ts";
import { ensureCluster } from "./cluster.ts";
import { tryLock } from "./lock.ts";
import { type Place, placeIn } from "./place.ts";
import { type StartingServer, startServer } from "./postmaster.ts";
import { requireSwitch, serverUserOf } from "./server-user.ts";
import { joinServer, type Session, type SessionOptions } from "./session.ts";

// A server whose cluster was removed under it takes up to a minute to notice and let go of the
// lock.
const patienceMs = 90_000;
const retryMs = 5_000;

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly applicationName: string;
  /** How long a server lives on after its last user was killed. Default one minute. */
  readonly orphanTimeoutMs?: number;
  /** Told the folder of the socket whenever the server had to be joined or started again. */
  readonly onRestart?: (socketDir: string) => void;
}

/** This process' use of the embedded Postgres of a data directory. */
export interface EmbeddedServer {
  /** Where its socket is; may change when the server had to be started again. */
  socketDir(): string;
  /**
   * Starts the server again if it is gone; when it returns, connections can be made. Calls at once
   * share one start. Also done unasked when the server is lost.
   */
  ensureRunning(): Promise<void>;
  /** Ends this use; the last user of the data directory stops the server. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * Joins the Postgres of a data directory, started by whoever comes first, and keeps it running
 * until `close`.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { applicationName, orphanTimeoutMs = 60_000 } = options;
  const sessionOptions = { place: placeIn(options.dataDir), applicationName, orphanTimeoutMs };
  let session = await enter(sessionOptions);
  let reviving: Promise<void> | null = null;
  let closing: Promise<void> | null = null;

  const revive = async () => {
    if (await session.isAlive()) return;
    session = await enter(sessionOptions);
    options.onRestart?.(session.socketDir);
    void session.lost.then(reviveUnasked);
  };
  const ensureRunning = () => {
    if (closing !== null) return Promise.reject(new WavesmithError("database", "The database was closed"));
    reviving ??= revive().finally(() => {
      reviving = null;
    });
    return reviving;
  };
  // Without a session others would count one user less, and stop the server under our connections.
  const reviveUnasked = () => {
    if (closing !== null) return;
    // Whoever asks for a connection meanwhile learns why there is none.
    ensureRunning().catch(() => setTimeout(reviveUnasked, retryMs).unref());
  };
  const close = async () => {
    await reviving?.catch(() => undefined); // Said to whoever asked for it.
    await session.leave();
  };
  void session.lost.then(reviveUnasked);
  return {
    socketDir: () => session.socketDir,
    ensureRunning,
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

async function enter(options: SessionOptions): Promise<Session> {
  try {
    return await joinOrStart(options);
  } catch (error) {
    if (error instanceof WavesmithError) throw error;
    const what = `The embedded database in ${options.place.dataDir} cannot be used: ${messageOf(error)}`;
    throw new WavesmithError("database", what, {
      remedy: `check that the folder is yours and has room; see ${options.place.logFile}`,
      cause: error,
    });
  }
}

/**
 * Joins the running server, or starts one and joins that; survives servers that stop or start
 * meanwhile.
 */
async function joinOrStart(options: SessionOptions): Promise<Session> {
  const deadline = Date.now() + patienceMs;
  let starting: StartingServer | null = null;
  for (let pauseMs = 5; Date.now() < deadline; pauseMs = Math.min(50, pauseMs * 1.5)) {
    const session = await joinServer(options);
    if (session !== null) return session;
    const end = (await starting?.end()) ?? null;
    if (end instanceof Error) throw end;
    if (starting === null || end === "again") starting = await tryToStart(options.place);
    await new Promise((wake) => setTimeout(wake, pauseMs));
  }
  throw notReachable(options.place);
}

/**
 * Starts a server; null when another process has the lock: it is starting one, or one is still
 * ending.
 */
async function tryToStart(place: Place): Promise<StartingServer | null> {
  const lock = await open(place.lockFile, "a", 0o600);
  try {
    const state = await tryLock(lock.fd);
    if (state === "busy") return null;
    const user = serverUserOf(place.clusterDir);
    if (user.switched) await requireSwitch(user);
    const binaries = await installBinaries(user);
    await ensureCluster(place, binaries, user, lock.fd);
    return await startServer({ place, binaries, user, lock, alone: state === "held" });
  } finally {
    await lock.close();
  }
}

function notReachable(place: Place): WavesmithError {
  return new WavesmithError(
    "database",
    `Postgres for ${place.clusterDir} could not be reached in ${patienceMs / 1000} s`,
    {
      remedy: `see ${place.logFile}; another container or machine may be using this data directory`,
      retryable: true,
    },
  );
}
