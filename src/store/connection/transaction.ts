import type { Pool, PoolClient } from "pg";
import { ConnectionLost } from "./lost-connection.ts";

/** Names a test can hook into, before and after a commit. */
export type StoreCrashPoint = (name: string) => void | Promise<void>;
/** Does a statement that commits by itself, between its crash points. */
export type Commit = <Result>(name: string, work: () => Promise<Result>) => Promise<Result>;

const mostTries = 5;
/** Serialisation failure and deadlock. */
const repeatable = new Set(["40001", "40P01"]);

/**
 * Runs `work` between `begin` and `commit` on its own client. An error rolls back and is
 * thrown.
 */
export async function withTransaction<Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
  begin = "begin",
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | undefined;
  let isCommitting = false;
  try {
    await client.query(begin);
    const result = await work(client);
    isCommitting = true;
    await client.query("commit");
    return result;
  } catch (error) {
    // A client that cannot roll back is thrown away, which rolls back as well.
    await client.query("rollback").catch((failure: Error) => {
      broken = failure;
    });
    if (error instanceof ConnectionLost) error.isUndone = broken !== undefined && !isCommitting;
    throw error;
  } finally {
    client.release(broken);
  }
}

/** Does `work` again while it fails in a way that changed nothing and may not happen again. */
export async function repeated<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      const isUndone = error instanceof ConnectionLost && error.isUndone;
      if (tries >= mostTries || !(isUndone || repeatable.has(codeOf(error) ?? ""))) throw error;
    }
  }
}

function codeOf(error: unknown): string | undefined {
  const { code, cause } = error as { code?: string; cause?: unknown };
  return code ?? (cause === undefined ? undefined : codeOf(cause));
}
