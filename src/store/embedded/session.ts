import { setTimeout as delay } from "node:timers/promises";
// PG1. A process that uses a cluster holds its advisory lock `users` shared, in a separate session.
// kill -9 ends the session and with it the lock, so only living users count.
// PG2. Only a holder of the exclusive lock `users` stops a server, and holds it until the server is
// gone. A process that arrives meanwhile waits for the lock, loses its connection, and starts a new
// server.
// PG3. At most one watchdog, the holder of the lock `watchdog`, looks after a server; every user
// that joins makes sure there is one.

import { randomUUID } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, type ClientConfig } from "pg";
import { WavesmithError } from "../../domain/errors.ts";
import type { ClusterPlace } from "./place.ts";
import { probePrefix, readPidFile } from "./postmaster.ts";
import { serverUserOf } from "./server-user.ts";
import { isOurSocketDir, removeSocketDir } from "./socket-dir.ts";
import { lockKeys, type RunningPostmaster, stopSql, watchdogSql } from "./watchdog.ts";

/** The name of an embedded cluster's database and of its owner, who is not a superuser. */
export const embeddedDatabase = "wavesmith";

export interface ClusterSessionOptions {
  readonly place: ClusterPlace;
  readonly applicationName: string;
  /** How long an unused server keeps running. */
  readonly orphanTimeoutMs: number;
}

/** One process's use of a running server. */
export interface ClusterSession {
  readonly socketDir: string;
  /** Settles when the session is lost; never after `leave`. */
  readonly lost: Promise<void>;
  isAlive(): Promise<boolean>;
  /** Ends this use; the last user stops the server and waits until it is gone. */
  leave(): Promise<void>;
}

/** Joins the cluster's server; null if there is none, or it is just starting or stopping. */
export async function joinServer(options: ClusterSessionOptions): Promise<ClusterSession | null> {
  const { place } = options;
  const running = readPidFile(place);
  if (running === null || !isOurSocketDir(running.socketDir, serverUserOf(place.clusterDir))) return null;
  const client = newClient(running.socketDir, options.applicationName);
  const ended = new Promise<void>((settle) => client.once("end", settle));
  try {
    await client.connect();
    const server = await identify(client, place, running.socketDir);
    await client.query("select pg_advisory_lock_shared($1)", [lockKeys.users]);
    await ensureDatabase(client);
    await ensureWatchdog(server, options.orphanTimeoutMs);
    return sessionOver(client, ended, { place, server });
  } catch (error) {
    await endQuietly(client);
    if (isPassing(error)) return null;
    throw error;
  }
}

class NotOurServer extends Error {}

/** Sets every option, because pg fills gaps from PG… variables of the environment. */
export function connectionTo(socketDir: string, who: { user: string; database: string; applicationName: string }) {
  return {
    host: socketDir,
    port: 5432,
    user: who.user,
    database: who.database,
    application_name: who.applicationName,
    ssl: false,
    options: "-c timezone=UTC",
    connectionTimeoutMillis: 10_000,
  } satisfies ClientConfig;
}

function newClient(socketDir: string, applicationName: string): Client {
  const who = { user: "postgres", database: "postgres", applicationName: `${applicationName} (session)` };
  const client = new Client(connectionTo(socketDir, who));
  client.on("error", () => {
    // Without a listener Node would die of it; the "end" that follows is what counts.
  });
  return client;
}

/** Checks that the server sees a file that we create in the cluster, so that it is this one's. */
async function identify(client: Client, place: ClusterPlace, socketDir: string): Promise<RunningPostmaster> {
  const name = probePrefix + randomUUID();
  const path = join(place.clusterDir, name);
  await writeFile(path, "", { mode: 0o600 });
  try {
    const seen = await client.query("select from pg_stat_file($1, true) where size is not null", [name]);
    if (seen.rowCount !== 1) throw new NotOurServer();
    const file = await client.query("select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int as pid");
    return { pid: file.rows[0].pid, socketDir };
  } finally {
    await rm(path, { force: true });
  }
}

async function ensureDatabase(client: Client): Promise<void> {
  if ((await hasDatabase(client)) && (await mayMakeRoles(client))) return;
  await client.query("select pg_advisory_lock($1)", [lockKeys.setup]);
  try {
    // Clusters of earlier versions have an owner who may not.
    if (await hasDatabase(client)) return void (await client.query(`alter role ${embeddedDatabase} createrole`));
    const role = await client.query("select from pg_roles where rolname = $1", [embeddedDatabase]);
    if (role.rowCount === 0) await client.query(`create role ${embeddedDatabase} login createrole`);
    await makeDatabase(client);
  } finally {
    await client.query("select pg_advisory_unlock($1)", [lockKeys.setup]);
  }
}

/**
 * Takes over the cluster's own `template1`, which nobody needs beside `template0`: that saves a
 * copy of 7 MB on the disk and the time to make it.
 */
async function makeDatabase(client: Client): Promise<void> {
  const spare = await client.query("select from pg_database where datname = 'template1'");
  if (spare.rowCount === 0) {
    await client.query(`create database ${embeddedDatabase} template template0 owner ${embeddedDatabase}`);
    return;
  }
  // Several statements in one query are one transaction.
  await client.query(`
    alter database template1 is_template false;
    alter database template1 rename to ${embeddedDatabase};
    alter database ${embeddedDatabase} owner to ${embeddedDatabase};
    comment on database ${embeddedDatabase} is null`);
}

async function hasDatabase(client: Client): Promise<boolean> {
  return (await client.query("select from pg_database where datname = $1", [embeddedDatabase])).rowCount === 1;
}

/** Whether the owner may make the role as which requests of tenants run. */
async function mayMakeRoles(client: Client): Promise<boolean> {
  return (
    (await client.query("select from pg_roles where rolname = $1 and rolcreaterole", [embeddedDatabase])).rowCount === 1
  );
}

/** Starts a watchdog if there is none: a session inside the server, which needs no client. */
async function ensureWatchdog(server: RunningPostmaster, orphanTimeoutMs: number): Promise<void> {
  const client = newClient(server.socketDir, "wavesmith watchdog");
  try {
    await client.connect();
    const claim = await client.query("select pg_try_advisory_lock($1) as held", [lockKeys.watchdog]);
    if (claim.rows[0]?.held !== true) return;
    await new Promise<void>((begun, failed) => {
      client.once("notice", () => begun());
      client.query(watchdogSql(server, orphanTimeoutMs)).catch(failed); // it never answers, and fails once we leave it
    });
  } finally {
    await endQuietly(client);
  }
}

function sessionOver(
  client: Client,
  ended: Promise<void>,
  { place, server }: { place: ClusterPlace; server: RunningPostmaster },
): ClusterSession {
  let leaving = false;
  let alive = true;
  const lost = new Promise<void>((settle) => {
    void ended.then(() => {
      alive = false;
      if (!leaving) settle();
    });
  });
  return {
    socketDir: server.socketDir,
    lost,
    isAlive: async () =>
      alive &&
      (await client.query("select").then(
        () => true,
        () => false,
      )),
    leave: async () => {
      leaving = true;
      if (alive) await leaveServer(client, place, server);
    },
  };
}

async function leaveServer(client: Client, place: ClusterPlace, server: RunningPostmaster): Promise<void> {
  try {
    await client.query("select pg_advisory_unlock_shared($1)", [lockKeys.users]);
    const last = await client.query("select pg_try_advisory_lock($1) as held", [lockKeys.users]);
    if (last.rows[0]?.held === true) await stopServer(client, place, server);
  } catch (error) {
    if (!isPassing(error)) throw error; // the server is ending, and our use with it
  } finally {
    await endQuietly(client);
  }
}

async function stopServer(client: Client, place: ClusterPlace, server: RunningPostmaster): Promise<void> {
  await client.query(stopSql(server)).catch((error: unknown) => {
    if (!isPassing(error)) throw error; // it may end our session before it answers
  });
  await untilGone(place, server);
  await removeSocketDir(server.socketDir);
}

async function untilGone(place: ClusterPlace, server: RunningPostmaster): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (readPidFile(place)?.pid === server.pid) {
    if (Date.now() > deadline) {
      throw new WavesmithError("database", `Postgres for ${place.clusterDir} does not stop`, {
        remedy: `see ${place.logFile}`,
      });
    }
    await delay(10);
  }
}

async function endQuietly(client: Client): Promise<void> {
  // Ends a session even if it is already broken.
  await client.end().catch(() => undefined);
}

const passingCodes = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET", "EPIPE", "57P01", "57P02", "57P03"]);

/** Whether the failure only means that the server is starting, stopping or gone. */
function isPassing(error: unknown): boolean {
  if (error instanceof NotOurServer) return true;
  if (!(error instanceof Error)) return false;
  const code = (error as NodeJS.ErrnoException).code;
  return code === undefined ? /Connection terminated|not queryable/.test(error.message) : passingCodes.has(code);
}
