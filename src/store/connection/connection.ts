import { Pool, type PoolConfig } from "pg";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { openEmbedded } from "../embedded/launcher.ts";
import { connectionTo, embeddedDatabase } from "../embedded/session.ts";
import { makePatient, type PoolPatience, patienceMs } from "./patient-pool.ts";
import { mayBecomeTenant, poolForTenant, tenantsNotApart } from "./tenant-pool.ts";

/** An open database. */
export interface Database {
  readonly pool: Pool;
  readonly kind: "embedded" | "server";
  /**
   * Returns a pool that sees the rows of this tenant alone. Without the role of tenants, which a
   * server's user may be unable to make, it is `pool` for the default tenant, and fails with
   * `environment` for any other.
   */
  poolOfTenant(tenantId: string, isDefault: boolean): Promise<Pool>;
  /**
   * Resolves once connections can be made; call it after a query failed with a lost connection.
   * Restarts a killed embedded Postgres. Throws `database` (retryable) if it cannot be reached.
   */
  ensureRunning(): Promise<void>;
  /** The server's version, such as `18.4`. */
  version(): Promise<string>;
  /** Ends the pool; the last user of an embedded database stops it. Safe to call twice. */
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** The folder of the embedded database, unless `databaseUrl` names a server. */
  readonly dataDir: string;
  readonly databaseUrl?: string;
  /** The name of this process in the server's list of connections. */
  readonly applicationName: string;
  /**
   * How long an embedded Postgres keeps running after its last user was killed; default a minute.
   */
  readonly orphanTimeoutMs?: number;
  /** Called when the server is lost and when it is back. */
  readonly warn?: (message: string) => void;
  /** How long to wait for a lost server; default one minute. */
  readonly patienceMs?: number;
}

/**
 * Opens the database: the server of `databaseUrl`, or else the embedded one of the data directory.
 * Throws `database` or `environment`.
 */
export function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { databaseUrl } = options;
  return databaseUrl === undefined ? openEmbeddedDatabase(options) : openServer(databaseUrl, options);
}

async function openEmbeddedDatabase(options: DatabaseOptions): Promise<Database> {
  const { dataDir, applicationName, orphanTimeoutMs } = options;
  const onRestart = (socketDir: string) => {
    for (const one of [pool, requests.pool]) one.options.host = socketDir;
  };
  const limit = orphanTimeoutMs === undefined ? {} : { orphanTimeoutMs };
  const server = await openEmbedded({ dataDir, applicationName, onRestart, ...limit });
  const who = { user: embeddedDatabase, database: embeddedDatabase, applicationName };
  const patient = {
    ...patience(options),
    address: `${dataDir}/postgres`,
    revive: () => server.ensureRunning(),
    remedy: `see ${dataDir}/postgres.log; when it can start again, continue: wavesmith resume`,
  };
  const pool = makePatient(hardened(new Pool(connectionTo(server.socketDir(), who))), patient);
  const requests = createRequestPools(pool, hardened(new Pool(connectionTo(server.socketDir(), who))), patient);
  return {
    pool,
    kind: "embedded",
    poolOfTenant: requests.poolOfTenant,
    ensureRunning: () => server.ensureRunning(),
    version: () => versionOf(pool),
    close: once(async () => {
      await requests.pool.end();
      await pool.end();
      await server.close();
    }),
  };
}

const patience = ({ warn = () => undefined, patienceMs: limitMs = patienceMs }: DatabaseOptions) => ({
  warn,
  patienceMs: limitMs,
});

async function openServer(databaseUrl: string, options: DatabaseOptions): Promise<Database> {
  const { applicationName } = options;
  const address = addressOf(databaseUrl);
  const config: PoolConfig = { connectionString: databaseUrl, application_name: applicationName };
  const newPool = (): Pool => hardened(new Pool({ ...config, connectionTimeoutMillis: 10_000 }));
  const patient = {
    ...patience(options),
    address,
    revive: async () => undefined,
    remedy: "start the server again, then continue: wavesmith resume",
  };
  const pool = newPool();
  const requests = createRequestPools(pool, newPool(), patient);
  const ensureRunning = async () => {
    await pool.query("select").catch((error: unknown) => {
      throw unreachable(address, error);
    });
  };
  const close = once(() => requests.pool.end().then(() => pool.end()));
  try {
    await ensureRunning();
  } catch (error) {
    await close();
    throw error;
  }
  // Only from here on, so that a wrong address fails at once.
  makePatient(pool, patient);
  const { poolOfTenant } = requests;
  return { pool, kind: "server", poolOfTenant, ensureRunning, version: () => versionOf(pool), close };
}

/** The pools of requests: one set of connections, and a view of it for each tenant. */
function createRequestPools(ownerPool: Pool, pool: Pool, patient: PoolPatience) {
  const views = new Map<string, Pool>();
  // The owner's pool warns of a lost server already.
  const quiet = { ...patient, warn: () => undefined };
  return {
    pool,
    async poolOfTenant(tenantId: string, isDefault: boolean): Promise<Pool> {
      const present = views.get(tenantId);
      if (present !== undefined) return present;
      const isApart = await mayBecomeTenant(ownerPool);
      if (!isApart && !isDefault) throw tenantsNotApart();
      const view = isApart ? makePatient(poolForTenant(pool, tenantId), quiet) : ownerPool;
      views.set(tenantId, view);
      return view;
    },
  };
}

async function versionOf(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ version: string }>("select current_setting('server_version') as version");
  return rows[0]?.version ?? "";
}

/** Keeps a broken connection from ending the process: the query fails, and the pool reconnects. */
function hardened(pool: Pool): Pool {
  const ignore = () => {
    // Nobody is waiting on this connection; pg drops it from the pool by itself.
  };
  pool.on("error", ignore);
  // The pool's own listener is off while a client is in use, for example in a transaction.
  pool.on("connect", (client) => client.on("error", ignore));
  return pool;
}

/**
 * Returns host, port and database, without user and password. Never shows the message of `new URL`,
 * which quotes its input.
 */
function addressOf(databaseUrl: string): string {
  const url = URL.canParse(databaseUrl) ? new URL(databaseUrl) : null;
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) {
    throw new WavesmithError("database", "DATABASE_URL is not the address of a Postgres server", {
      remedy: "write it as postgres://USER:PASSWORD@HOST:5432/DATABASE (special characters percent-encoded)",
    });
  }
  return `${url.searchParams.get("host") ?? url.host}${url.pathname}`;
}

function unreachable(address: string, cause: unknown): WavesmithError {
  return new WavesmithError("database", `The database at ${address} cannot be used: ${messageOf(cause)}`, {
    remedy:
      "check that the server is running and that DATABASE_URL is right; without DATABASE_URL an embedded one is used",
    retryable: true,
    cause,
  });
}

function once(act: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | null = null;
  return () => {
    done ??= act();
    return done;
  };
}
