import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Pool } from "pg";
import { openEmbedded } from "../../src/store/embedded/launcher.ts";
import { embeddedDatabase } from "../../src/store/embedded/session.ts";
import { migrate } from "../../src/store/migrate.ts";
import { eachFileEnds } from "./after-file.ts";

export interface TestDatabase {
  readonly pool: Pool;
  /** Opens the same database from another process, for example with DATABASE_URL. */
  readonly url: string;
  /** Ends the pool and drops the database; the end of the test file does so by itself. */
  close(): Promise<void>;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const migrationsFolder = join(root, "drizzle");
const lockKey = 7_410_200;

/**
 * The server that all test processes share: our own embedded one, or WAVESMITH_TEST_DATABASE_URL.
 */
interface TestServer {
  readonly admin: Pool;
  readonly template: string;
  /** A clause of `create database`. */
  readonly strategy: string;
  urlOf(database: string): string;
  close(): Promise<void>;
}

let server: Promise<TestServer> | null = null;
let made = 0;
const open = new Set<TestDatabase>();

/**
 * Creates a fresh database with the schema of `drizzle/`, or an empty one with `migrated: false`.
 */
export async function testDatabase({ migrated = true }: { migrated?: boolean } = {}): Promise<TestDatabase> {
  server ??= startServer();
  const { admin, template, strategy, urlOf } = await server;
  made += 1;
  const name = `test_${process.pid}_${made}`;
  await admin.query(`drop database if exists ${name} with (force)`);
  await admin.query(
    `create database ${name} template ${migrated ? template : "template0"} ${strategy} ${ownerClause()}`,
  );
  const pool = newPool(urlOf(name));
  const database: TestDatabase = {
    pool,
    url: urlOf(name),
    close: async () => {
      if (!open.delete(database)) return;
      await pool.end();
      await admin.query(`drop database if exists ${name} with (force)`);
    },
  };
  open.add(database);
  return database;
}

eachFileEnds(async () => {
  for (const database of open) await database.close();
  await (await server)?.close();
  server = null;
});

function newPool(url: string): Pool {
  const pool = new Pool({ connectionString: url, options: "-c synchronous_commit=off", max: 10 });
  const ignore = () => {
    // A test that ends the server's sessions checks their effect in its queries.
  };
  pool.on("error", ignore);
  pool.on("connect", (client) => client.on("error", ignore));
  return pool;
}

async function startServer(): Promise<TestServer> {
  const external = process.env.WAVESMITH_TEST_DATABASE_URL;
  const base =
    external === undefined
      ? await startEmbedded()
      : { adminUrl: external, urlOf: within(external), close: async () => undefined };
  const admin = newPool(base.adminUrl);
  const template = await makeTemplate(admin, base.urlOf);
  return {
    admin,
    template,
    strategy: await cheapestStrategy(admin),
    urlOf: base.urlOf,
    close: async () => {
      await admin.end();
      await base.close();
    },
  };
}

/**
 * Where the server syncs nothing, copying a database's files takes half the processor time of
 * writing its pages to the log, which Postgres does by default since version 15.
 */
async function cheapestStrategy(admin: Pool): Promise<string> {
  const { rows } = await admin.query<{ copies: boolean }>(
    "select current_setting('fsync') = 'off' and current_setting('server_version_num')::int >= 150000 as copies",
  );
  return rows[0]?.copies ? "strategy file_copy" : "";
}

async function startEmbedded() {
  const embedded = await openEmbedded({ dataDir: dataDir(), applicationName: "tests", orphanTimeoutMs: 3_000 });
  const host = encodeURIComponent(embedded.socketDir());
  const adminUrl = `postgres://postgres@localhost/postgres?host=${host}`;
  await dropLeftovers(adminUrl);
  return {
    adminUrl,
    urlOf: (database: string) => `postgres://${embeddedDatabase}@localhost/${database}?host=${host}`,
    close: () => embedded.close(),
  };
}

/**
 * The cluster (not its server) is kept between runs, like any other cache, because creating it
 * takes time.
 */
function dataDir(): string {
  const name = `wavesmith-tests-${process.geteuid?.()}`;
  const cache = join(root, "node_modules", ".cache");
  try {
    mkdirSync(cache, { recursive: true });
    accessSync(cache, constants.W_OK);
    return join(cache, name);
  } catch {
    return join(tmpdir(), name); // We may only read this checkout.
  }
}

function within(server: string): (database: string) => string {
  return (database) => Object.assign(new URL(server), { pathname: `/${database}` }).href;
}

function ownerClause(): string {
  return process.env.WAVESMITH_TEST_DATABASE_URL === undefined ? `owner ${embeddedDatabase}` : "";
}

/**
 * Creates the migrated template once for all processes. It gets its name only when it is complete.
 */
async function makeTemplate(admin: Pool, urlOf: (database: string) => string): Promise<string> {
  const journal = join(migrationsFolder, "meta", "_journal.json");
  if (!existsSync(journal)) return "template0";
  const name = `wavesmith_template_${hashOf(migrationsFolder)}`;
  const client = await admin.connect();
  try {
    await client.query("select pg_advisory_lock($1)", [lockKey]);
    if ((await client.query("select from pg_database where datname = $1", [name])).rowCount === 1) return name;
    await client.query("drop database if exists wavesmith_draft");
    await client.query(`create database wavesmith_draft template template0 ${ownerClause()}`);
    const pool = newPool(urlOf("wavesmith_draft"));
    await migrate(pool, migrationsFolder).finally(() => pool.end());
    await client.query(`alter database wavesmith_draft rename to ${name}`);
    return name;
  } finally {
    client.release(true);
  }
}

/** Drops databases that killed test processes left behind. */
async function dropLeftovers(adminUrl: string): Promise<void> {
  const admin = newPool(adminUrl);
  const found = await admin.query<{ datname: string }>("select datname from pg_database where datname like 'test\\_%'");
  for (const { datname } of found.rows) {
    const [, pid] = datname.split("_");
    if (!existsSync(`/proc/${pid}`)) await admin.query(`drop database if exists ${datname} with (force)`);
  }
  await admin.end();
}

function hashOf(folder: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(folder).sort()) {
    if (name.endsWith(".sql")) hash.update(name).update(readFileSync(join(folder, name)));
  }
  return hash.digest("hex").slice(0, 16);
}
