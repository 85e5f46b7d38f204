import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { WavesmithError } from "../domain/errors.ts";
import type { EngineConnection, EngineDatabase, EngineStatement } from "./port.ts";

export type EngineQueryable = Pick<EngineConnection, "query">;

const statements = new Map<string, EngineStatement>();

/** Returns a statement that each connection plans only once. Use it for a fixed set of texts. */
export function prepared(text: string): EngineStatement {
  const known = statements.get(text);
  if (known !== undefined) return known;
  const statement = { name: `engine_${createHash("sha256").update(text).digest("hex").slice(0, 16)}`, text };
  statements.set(text, statement);
  return statement;
}

// Node's and Postgres's codes (appendix A of the Postgres manual) for failures that may pass.
const transientCodes =
  /^(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ENOENT|EPIPE|ETIMEDOUT|08\w{3}|57P0[1-5]|53100|53300|40001|40P01|55P03)$/;
// node-postgres gives these errors no code.
const transientMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/;

/**
 * Whether the same statement may succeed later: the connection or server was lost, its disk is
 * full, or Postgres broke a deadlock.
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isTransient);
  if (error instanceof WavesmithError && error.code === "database" && error.retryable) return true;
  const { code } = error as { code?: unknown };
  return (typeof code === "string" && transientCodes.test(code)) || transientMessages.test(error.message);
}

/** Runs `work` on one connection between BEGIN and COMMIT; rolls back if it throws. */
export async function inTransaction<Result>(
  database: EngineDatabase,
  begin: string,
  work: (connection: EngineConnection, beginResult: unknown) => Promise<Result>,
): Promise<Result> {
  const connection = await database.connect();
  // A client whose connection drops between two queries emits `error`, which would end the process.
  // Ignore it, because the next query rejects anyway.
  const ignore = () => undefined;
  connection.on("error", ignore);
  let rollbackError: Error | null = null;
  try {
    const beginResult = await connection.query(begin);
    const result = await work(connection, beginResult);
    await connection.query("COMMIT");
    return result;
  } catch (error) {
    rollbackError = await rollBack(connection);
    throw error;
  } finally {
    connection.removeListener("error", ignore);
    connection.release(rollbackError ?? false);
  }
}

async function rollBack(connection: EngineConnection): Promise<Error | null> {
  try {
    await connection.query("ROLLBACK");
    return null;
  } catch (error) {
    return error as Error; // the connection is discarded, which also rolls back
  }
}

/** Retries `work` while the database is unreachable and `goOn` is true; throws other errors. */
export async function withDatabase<Result>(work: () => Promise<Result>, goOn: () => boolean): Promise<Result> {
  for (let delayMs = 25; ; delayMs = Math.min(delayMs * 2, 1_000)) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (!goOn())
        throw new WavesmithError("database", "the database is unreachable", { retryable: true, cause: error });
      await delay(delayMs);
    }
  }
}
