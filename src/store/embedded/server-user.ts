import { readFileSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { WavesmithError } from "../../domain/errors.ts";
import { runProgram } from "./run-program.ts";
import type { ServerUser } from "./server-identity.ts";

// Used by no distribution (systemd's table of uids calls 65520…65533 unused), so that no agent's
// process shares its files, its signals or its process limit, as one running as "nobody" might.
const uidForRoot = 65531;

/**
 * Who runs the server of `clusterDir`: we ourselves or, when we are root, the owner of the cluster.
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

/** The failure for machines without Postgres binaries of ours. */
export function unsupportedPlatform(cause?: unknown): WavesmithError {
  const machine = `${process.platform}-${process.arch}`;
  return new WavesmithError("environment", `There are no embedded Postgres binaries that run on ${machine} here`, {
    remedy: "run a Postgres server and set DATABASE_URL to its address",
    ...(cause === undefined ? {} : { cause }),
  });
}

/**
 * Throws `environment` for a root that may not become another user, as in a container without
 * CAP_SETUID.
 */
export async function requireSwitch(user: ServerUser): Promise<void> {
  const { spawnError } = await runProgram({ argv: ["true"], user });
  if (spawnError?.code !== "EPERM" && spawnError?.code !== "EINVAL") return;
  throw new WavesmithError("environment", `Postgres refuses root, and root may not become user ${user.uid} here`, {
    remedy: "run wavesmith as an ordinary user, or set DATABASE_URL to a Postgres server",
    cause: spawnError,
  });
}

/** Whether this process' user has a name: initdb, unlike the server, insists on one. */
export function hasName(): boolean {
  try {
    userInfo();
    return true;
  } catch {
    // userInfo throws for a uid without an entry, as `docker run --user 1234` makes.
    return false;
  }
}

/** Any user but root that has a name here, "nobody" first. */
export function namedUser(): ServerUser | null {
  const users = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"))
    .filter((fields) => Number(fields[2]) > 0 && Number(fields[3]) > 0);
  const found = users.find((fields) => fields[0] === "nobody") ?? users[0];
  return found === undefined ? null : { uid: Number(found[2]), gid: Number(found[3]), switched: true };
}
