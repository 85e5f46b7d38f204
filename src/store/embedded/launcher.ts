import { open } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { installBinaries } from "./binaries.ts";
import { ensureCluster } from "./cluster.ts";
import { tryLock } from "./lock.ts";
import { type ClusterPlace, placeIn } from "./place.ts";
import { type StartingServer, startPostmaster } from "./postmaster.ts";
import { requireSwitch, serverUserOf } from "./server-user.ts";
import { type ClusterSession, type ClusterSessionOptions, joinServer } from "./session.ts";

// A server whose cluster was removed takes up to a minute to notice and release the lock.
const patienceMs = 90_000;
const retryMs = 5_000;

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly applicationName: string;
  /** How long a server keeps running after its last user was killed; default one minute. */
  readonly orphanTimeoutMs?: number;
  /** Called with the socket's folder whenever the server had to be rejoined or restarted. */
  readonly onRestart?: (socketDir: string) => void;
}

/** This process's use of a data directory's embedded Postgres. */
export interface EmbeddedServer {
  /** The folder of its socket, which may change when the server is restarted. */
  socketDir(): string;
  /**
   * Restarts the server if it is gone; resolves once connections can be made. Concurrent calls
   * share one start. It also happens by itself when the server is lost.
   */
  ensureRunning(): Promise<void>;
  /** Ends this use; the data directory's last user stops the server. Safe to call twice. */
  close(): Promise<void>;
}

/** Joins a data directory's Postgres, starting it if needed, and keeps it running until `close`. */
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
  // Without a session, other processes would not count us and might stop the server.
  const reviveUnasked = () => {
    if (closing !== null) return;
    // A caller that needs a connection meanwhile gets the reason for the failure.
    ensureRunning().catch(() => setTimeout(reviveUnasked, retryMs).unref());
  };
  const close = async () => {
    await reviving?.catch(() => undefined); // the caller of that start gets the error
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

async function enter(options: ClusterSessionOptions): Promise<ClusterSession> {
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

/** Joins the running server, or starts and joins one, even if servers stop or start meanwhile. */
async function joinOrStart(options: ClusterSessionOptions): Promise<ClusterSession> {
  const deadline = Date.now() + patienceMs;
  let starting: StartingServer | null = null;
  for (let pauseMs = 5; Date.now() < deadline; pauseMs = Math.min(50, pauseMs * 1.5)) {
    const session = await joinServer(options);
    if (session !== null) return session;
    const end = (await starting?.end()) ?? null;
    if (end instanceof Error) throw end;
    if (starting === null || end === "again") starting = await tryToStart(options.place);
    await delay(pauseMs);
  }
  throw notReachable(options.place);
}

/**
 * Starts a server; null when another process has the lock because a server is starting or ending.
 */
async function tryToStart(place: ClusterPlace): Promise<StartingServer | null> {
  const lock = await open(place.lockFile, "a", 0o600);
  try {
    const state = await tryLock(lock.fd);
    if (state === "busy") return null;
    const user = serverUserOf(place.clusterDir);
    if (user.switched) await requireSwitch(user);
    const binaries = await installBinaries(user);
    await ensureCluster(place, binaries, user, lock.fd);
    return await startPostmaster({ place, binaries, user, lock, alone: state === "held" });
  } finally {
    await lock.close();
  }
}

function notReachable(place: ClusterPlace): WavesmithError {
  return new WavesmithError(
    "database",
    `Postgres for ${place.clusterDir} could not be reached in ${patienceMs / 1000} s`,
    {
      remedy: `see ${place.logFile}; another container or machine may be using this data directory`,
      retryable: true,
    },
  );
}
