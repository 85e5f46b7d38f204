import { statSync } from "node:fs";

/** The user that a sandbox runs as on the host. */
export interface HostUser {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Owns the volumes when root runs Wavesmith in a folder of root's. No system gives this id to a
 * person or a service.
 */
const ownUser: HostUser = { uid: 58_713, gid: 58_713 };

/**
 * Returns the user that sandboxes run as when we are root: the owner of the data directory, or one
 * of our own when that is root. Null when we are not root.
 */
export function sandboxUser(dataDir: string): HostUser | null {
  if (process.geteuid?.() !== 0) return null;
  const { uid, gid } = statSync(dataDir);
  return uid === 0 ? ownUser : { uid, gid };
}
