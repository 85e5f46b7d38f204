import type { EngineConnection, EngineDatabase } from "./port.ts";

// S1. While a process may hold leases, it holds the advisory lock of its id on a connection of its
// own; the end of the process or of that connection frees it, and others see in pg_locks that its
// leases are nobody's.
// S2. Nothing is claimed without that lock.

/** First half of the advisory lock keys of processes; the second is `hashtext(process id)`. */
export const processLockSpace = 0x656e6701;
const channel = "wavesmith_engine";

export interface Session {
  /** Takes the lock and listens, if it does not already; rejects when the database is away. */
  ensure(): Promise<void>;
  /** Tells other processes that there is work; best effort, they look by themselves too. */
  notify(): void;
  /** Frees the lock; `ensure` takes it again. */
  close(): void;
}

export interface SessionOptions {
  readonly database: EngineDatabase;
  readonly processId: string;
  /** Another process has work for us. */
  readonly onNotified: () => void;
  readonly onLost: () => void;
}

interface Standing {
  readonly connection: EngineConnection;
  readonly drop: (error?: Error) => void;
}

/** The standing connection of an engine: its process lock, and LISTEN/NOTIFY. */
export function createSession(options: SessionOptions): Session {
  const { database, processId } = options;
  let current: Standing | null = null;
  let closings = 0;
  let wanted = false;
  let telling = false;

  const open = async (): Promise<Standing> => {
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

  const tell = async () => {
    telling = true;
    try {
      while (wanted && current !== null) {
        // Many commits in a row are one notice; it is outside their transactions, where it would
        // serialise their commits.
        await new Promise((resolve) => setTimeout(resolve, 5));
        wanted = false;
        await current?.connection.query("SELECT pg_notify($1, $2)", [channel, processId]);
      }
    } catch {
      // Lost with its connection, which reports that itself; the others look by themselves.
    } finally {
      telling = false;
    }
  };

  return {
    async ensure() {
      if (current !== null) return;
      const mine = closings;
      const opened = await open();
      if (mine === closings) current = opened;
      else opened.drop(); // closed meanwhile
    },
    notify() {
      wanted = true;
      if (!telling) void tell();
    },
    close() {
      closings += 1;
      current?.drop();
    },
  };
}
