import { readFileSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { WavesmithError } from "../../domain/errors.ts";
import { runProgram } from "./run-program.ts";
import type { ServerUser } from "./server-identity.ts";

// No distribution uses this id (systemd's table of uids lists 65520…65533 as unused). So no agent's
// process shares its files, signals or process limit, as one that runs as "nobody" might.
const uidForRoot = 65531;

/**
 * Returns the user for the server of `clusterDir`: our own or, if we are root, the cluster's owner.
 */
export function serverUserOf(clusterDir: string): ServerUser {
  const uid = process.geteuid?.();
  const gid = process.getegid?.();
  if (uid === undefined || gid === undefined) throw unsupportedPlatform();
  if (uid !== 0) return { uid, gid, switched: false };
  const owner = statSync(clusterDir, { throwIfNoEntry: false });
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid, switched: true };
  return { uid: uidForRoot, gid: uidForRoot, switched: true };
}

/** Makes the error for machines without embedded Postgres binaries. */
export function unsupportedPlatform(cause?: unknown): WavesmithError {
  const machine = `${process.platform}-${process.arch}`;
  return new WavesmithError("environment", `There are no embedded Postgres binaries that run on ${machine} here`, {
    remedy: "run a Postgres server and set DATABASE_URL to its address",
    ...(cause === undefined ? {} : { cause }),
  });
}

/**
 * Throws `environment` if root cannot become another user, as in a container without CAP_SETUID.
 */
export async function requireSwitch(user: ServerUser): Promise<void> {
  const { spawnError } = await runProgram({ argv: ["true"], user });
  if (spawnError?.code !== "EPERM" && spawnError?.code !== "EINVAL") return;
  throw new WavesmithError("environment", `Postgres refuses root, and root may not become user ${user.uid} here`, {
    remedy: "run wavesmith as an ordinary user, or set DATABASE_URL to a Postgres server",
    cause: spawnError,
  });
}

/** Whether this process's user has a name, which initdb requires but the server does not. */
export function hasName(): boolean {
  try {
    userInfo();
    return true;
  } catch {
    // userInfo throws for a uid without an entry, as after `docker run --user 1234`.
    return false;
  }
}

/** Returns a user with a name, but not root; "nobody" if possible. */
export function namedUser(): ServerUser | null {
  const users = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"))
    .filter((fields) => Number(fields[2]) > 0 && Number(fields[3]) > 0);
  const found = users.find((fields) => fields[0] === "nobody") ?? users[0];
  return found === undefined ? null : { uid: Number(found[2]), gid: Number(found[3]), switched: true };
}
