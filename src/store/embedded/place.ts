import { mkdirSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";

/** The paths of an embedded Postgres: all below one data directory, except its socket. */
export interface ClusterPlace {
  readonly dataDir: string;
  /** The cluster, Postgres's own data directory. If it exists, it is complete. */
  readonly clusterDir: string;
  readonly logFile: string;
  /** Locked by the running server, and by a process that is about to start one. */
  readonly lockFile: string;
  /** Names the last folder created for a server's socket; written before the folder is created. */
  readonly socketFile: string;
}

/** Returns the paths below `dataDir`, which is created (mode 0700) if missing. */
export function placeIn(dataDir: string): ClusterPlace {
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
