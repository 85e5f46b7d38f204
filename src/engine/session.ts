import { setTimeout as delay } from "node:timers/promises";
import type { EngineConnection, EngineDatabase } from "./port.ts";

// EH1. While a process may hold leases, it holds an advisory lock named after its id, on a
// connection of its own. When the process or the connection ends, Postgres frees the lock, and
// other processes see in pg_locks that the leases are orphaned.
// EH2. A process claims nothing without that lock.

/** First half of the advisory lock keys of processes; the second is `hashtext(process id)`. */
export const processLockSpace = 0x656e6701;
const channel = "wavesmith_engine";

export interface EngineSession {
  /** Takes the lock and listens, unless it already does; rejects if the database is unreachable. */
  ensure(): Promise<void>;
  /** Notifies other processes of new work; best effort, because they also poll. */
  notify(): void;
  /** Frees the lock; `ensure` takes it again. */
  close(): void;
}

export interface EngineSessionOptions {
  readonly database: EngineDatabase;
  readonly processId: string;
  /** Called when another process reports new work. */
  readonly onNotified: () => void;
  readonly onLost: () => void;
}

interface OpenSession {
  readonly connection: EngineConnection;
  readonly drop: (error?: Error) => void;
}

/**
 * Creates an engine's permanent connection, which holds its process lock and uses LISTEN/NOTIFY.
 */
export function createEngineSession(options: EngineSessionOptions): EngineSession {
  const { database, processId } = options;
  let current: OpenSession | null = null;
  let closeCount = 0;
  const notifier = createNotifier(processId, () => current);

  const open = async (): Promise<OpenSession> => {
    const connection = await database.connect();
    let released = false;
    const drop = (error?: Error) => {
      if (released) return;
      released = true;
      if (current?.connection === connection) current = null;
      connection.removeAllListeners("notification");
      connection.release(error ?? true);
      options.onLost();
    };
    connection.on("error", drop);
    connection.on("notification", (message) => message.payload !== processId && options.onNotified());
    try {
      await connection.query("SELECT pg_advisory_lock($1, hashtext($2))", [processLockSpace, processId]);
      await connection.query(`LISTEN ${channel}`);
    } catch (error) {
      drop(error as Error);
      throw error;
    }
    return { connection, drop };
  };

  return {
    async ensure() {
      if (current !== null) return;
      const closeCountBefore = closeCount;
      const opened = await open();
      if (closeCountBefore === closeCount) current = opened;
      else opened.drop(); // closed meanwhile
    },
    notify: () => notifier.notify(),
    close() {
      closeCount += 1;
      current?.drop();
    },
  };
}

/** Tells the other processes of new work, once for many commits in a row. */
function createNotifier(processId: string, current: () => OpenSession | null): Pick<EngineSession, "notify"> {
  let shouldNotify = false;
  let isNotifying = false;
  const sendNotifications = async () => {
    isNotifying = true;
    try {
      while (shouldNotify && current() !== null) {
        // Sent outside the commits' transactions, because inside it would serialise them.
        await delay(5);
        shouldNotify = false;
        await current()?.connection.query("SELECT pg_notify($1, $2)", [channel, processId]);
      }
    } catch {
      // The connection was lost, which it reports itself; the other processes also poll.
    } finally {
      isNotifying = false;
    }
  };
  return {
    notify() {
      shouldNotify = true;
      if (!isNotifying) void sendNotifications();
    },
  };
}
