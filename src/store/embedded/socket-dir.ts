import { randomBytes } from "node:crypto";
import { lstatSync, statSync } from "node:fs";
import { chown, mkdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { ServerUser } from "./server-identity.ts";

const prefix = "wavesmith-pg-";
// A socket's path may have 107 bytes, and Postgres adds ".s.PGSQL.5432.lock" to the folder.
const longestPath = 85;

/**
 * Creates a private folder for the socket, with a short path of harmless characters. Announces it
 * first, so that it can be found even if we are killed.
 */
export async function makeSocketDir(user: ServerUser, announce: (folder: string) => Promise<void>): Promise<string> {
  const faults: string[] = [];
  for (const parent of [tmpdir(), "/tmp", "/var/tmp", "/run"]) {
    try {
      if (!isSuitable(parent, user)) continue;
      const folder = join(parent, `${prefix}${randomBytes(4).toString("hex")}`);
      await announce(folder);
      await mkdir(folder, { mode: 0o700 });
      if (user.switched) await chown(folder, user.uid, user.gid);
      return folder;
    } catch (error) {
      faults.push(messageOf(error));
    }
  }
  throw new WavesmithError("environment", `No folder can hold Postgres's socket: ${faults.join("; ")}`, {
    remedy: "make /tmp writable, or set DATABASE_URL to a Postgres server",
  });
}

/** Whether `folder` is one of our socket folders, which no other user can create or enter. */
export function isOurSocketDir(folder: string, user: ServerUser): boolean {
  if (!basename(folder).startsWith(prefix)) return false;
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === user.uid && (found.mode & 0o077) === 0;
}

/** Whether a server listens on the socket in this folder. */
export function isListening(folder: string): Promise<boolean> {
  return new Promise((settle) => {
    const socket = connect(join(folder, ".s.PGSQL.5432"));
    socket.once("error", () => settle(false));
    socket.once("connect", () => {
      socket.destroy();
      settle(true);
    });
  });
}

/** Removes a socket folder whose server is gone. */
export async function removeSocketDir(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => {
    // An empty temporary folder does no harm.
  });
}

function isSuitable(parent: string, user: ServerUser): boolean {
  const fits = /^\/[A-Za-z0-9/._-]+$/.test(parent) && parent.length + prefix.length + 9 <= longestPath;
  return fits && (!user.switched || canBeEnteredByAll(parent));
}

function canBeEnteredByAll(folder: string): boolean {
  if (((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0) & 0o001) === 0) return false;
  return folder === "/" || canBeEnteredByAll(dirname(folder));
}
