import type { Pool, PoolClient } from "pg";
import { type IdSource, randomIds } from "../domain/ids.ts";
import { holdSession } from "./connection/held-session.ts";
import { type StoreSession, sessionOf } from "./connection/session.ts";
import { type Commit, repeated, type StoreCrashPoint, withTransaction } from "./connection/transaction.ts";
import { createAnnouncing } from "./event-feed.ts";
import { createInstallation } from "./installation.ts";
import { createLeases } from "./leases.ts";
import { advisoryKey, createLocks } from "./locks.ts";
import { createDrain, createUnsent, findLostRequests } from "./outbox.ts";
import type { Rows, Store, StoreTransaction, Tables, WrittenEvent } from "./port.ts";
import { createKeptPlans } from "./rows/kept-column.ts";
import { type OwnTables, tablesOf } from "./rows/tables.ts";
import { attemptInContext } from "./statements/attempts.ts";
import { findMovingProjects } from "./statements/builds.ts";
import { addedChecks } from "./statements/gate-runs.ts";
import {
  lockSpending,
  modelSpending,
  projectSpending,
  reserveModelCall,
  tenantSpending,
} from "./statements/spending.ts";

const machineLock = advisoryKey("wavesmith:machine");
const runningTasksLock = advisoryKey("wavesmith:running-tasks");

interface StoreOptions {
  readonly crashPoint?: StoreCrashPoint;
  readonly ids?: IdSource;
}

/** The store over a pool whose database is migrated. */
export function createStore(pool: Pool, { crashPoint, ids = randomIds }: StoreOptions = {}): Store {
  const plans = createKeptPlans();
  const unsent = createUnsent();
  const announce = createAnnouncing(pool);
  const session = sessionOf(pool);
  const tables = tablesOf(session, { column: plans, mayKeep: true });
  const reach = async (name: string) => crashPoint?.(name);
  const commit: Commit = async (name, work) => {
    await reach(`${name}.before-commit`);
    const result = await work();
    await reach(`${name}.after-commit`);
    return result;
  };
  const clients = new WeakMap<PoolClient, OwnTables>();
  const tablesOn = (client: PoolClient): OwnTables => {
    const own = clients.get(client) ?? tablesOf(sessionOf(client), { column: plans, mayKeep: false });
    clients.set(client, own);
    return own;
  };
  const transaction: Store["transaction"] = (name, work) =>
    repeated(async () => {
      let emits = false;
      const onEmit = () => {
        emits = true;
      };
      try {
        const result = await withTransaction(pool, async (client) => {
          const value = await work(transactionOf(client, tablesOn(client), onEmit));
          await reach(`${name}.before-commit`);
          return value;
        });
        await reach(`${name}.after-commit`);
        return result;
      } finally {
        // Also after a failure: the commit may have succeeded even though its reply was lost.
        if (emits) unsent.expect();
        if (emits) announce();
      }
    });
  return {
    ...(crashPoint === undefined ? tables : committing(tables, commit)),
    transaction,
    ...reads(session, tables),
    reserveModelCall: (call, limits) => commit("reserve-model-call", () => reserveModelCall(session, call, limits)),
    ...processRegistry(pool),
    ...createLocks(pool),
    ...createLeases(session, commit),
    drainOutbox: createDrain(pool, unsent, reach),
    ...createInstallation(session, ids),
    addedChecks: (waveIds) => addedChecks(session, waveIds),
    projectSpending: (projectId, since) => projectSpending(session, projectId, since),
    unfinishedProjects: () => findMovingProjects(session),
    lostRequests: (projectIds, sentBefore) => findLostRequests(session, projectIds, sentBefore),
  };
}

/** Queries on several tables or rows. */
const reads = (session: StoreSession, tables: OwnTables) => ({
  attemptInContext: (id: string) => attemptInContext(session, tables, id),
  modelSpending: (buildId: string) => modelSpending(session, buildId),
  tenantSpending: (tenantId: string) => tenantSpending(session, tenantId),
});

/** Takes an advisory lock until the transaction ends. */
async function lockFor(client: PoolClient, key: bigint): Promise<void> {
  await client.query("select pg_advisory_xact_lock($1)", [key.toString()]);
}

function transactionOf(client: PoolClient, tables: OwnTables, onEmit: () => void): StoreTransaction {
  const write = async ({ id: eventId, name, data }: WrittenEvent, sentAt: Date | null): Promise<void> => {
    onEmit();
    const { projectId, buildId = null } = data;
    await tables.outbox.insertIfAbsent({ eventId, name, data, projectId, buildId, sentAt });
  };
  return {
    ...tables,
    ...reads(sessionOf(client), tables),
    lockBuild: (id) => tables.builds.lock({ id }),
    lockProject: (id) => tables.projects.lock({ id }),
    lockTenant: (id) => tables.tenants.lock({ id }),
    lockRunningTasks: () => lockFor(client, runningTasksLock),
    lockMachine: () => lockFor(client, machineLock),
    lockSpending: (buildId) => lockSpending(tables, buildId),
    emit: (event) => write(event, null),
    report: (event) => write(event, new Date()),
  };
}

/** Tables whose single statements, each its own commit, have crash points around them. */
function committing(tables: Tables, commit: Commit): Tables {
  const wrapped = Object.entries(tables as unknown as Record<string, Rows<object, object>>).map(([name, rows]) => {
    const { insert, insertMany, insertIfAbsent, update, remove } = rows;
    const own: Rows<object, object> = {
      ...rows,
      insert: (row) => commit(`${name}.insert`, () => insert(row)),
      insertMany: (all) => commit(`${name}.insertMany`, () => insertMany(all)),
      insertIfAbsent: (row) => commit(`${name}.insertIfAbsent`, () => insertIfAbsent(row)),
      update: (where, patch) => commit(`${name}.update`, () => update(where, patch)),
      remove: (where) => commit(`${name}.remove`, () => remove(where)),
    };
    return [name, own];
  });
  return Object.fromEntries(wrapped) as Tables;
}

function processRegistry(pool: Pool): Pick<Store, "registerProcess"> {
  return {
    async registerProcess(ownerId) {
      const held = await holdSession(pool, {
        text: "select pg_advisory_lock($1)",
        values: [advisoryKey(ownerId).toString()],
      });
      return { release: () => held.end() };
    },
  };
}
