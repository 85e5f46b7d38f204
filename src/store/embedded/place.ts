import { mkdirSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";

/**
 * Where an embedded Postgres keeps its things: all of it below one data directory, but for its
 * socket.
 */
export interface Place {
  readonly dataDir: string;
  /** The cluster itself, Postgres' own data directory. It is there only when it is whole. */
  readonly clusterDir: string;
  readonly logFile: string;
  /** Locked by the running server, and by whoever is about to start one. */
  readonly lockFile: string;
  /** Names the last folder that was made for a server's socket, written before it was made. */
  readonly socketFile: string;
}

/**
 * The places below `dataDir`, which is made (mode 0700) if it is not there. Throws `environment`.
 */
export function placeIn(dataDir: string): Place {
  try {
    mkdirSync(resolve(dataDir), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new WavesmithError("environment", `The data directory cannot be made: ${messageOf(error)}`, {
      remedy: "choose another one with --data",
      cause: error,
    });
  }
  const root = realpathSync(dataDir);
  return {
    dataDir: root,
    clusterDir: join(root, "postgres"),
    logFile: join(root, "postgres.log"),
    lockFile: join(root, "postgres.lock"),
    socketFile: join(root, "postgres.socket"),
  };
}
