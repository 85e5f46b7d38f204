import { createHash } from "node:crypto";
import { WavesmithError } from "../domain/errors.ts";
import type { EngineConnection, EngineDatabase, EngineStatement } from "./port.ts";

export type Queryable = Pick<EngineConnection, "query">;

const statements = new Map<string, EngineStatement>();

/** A statement that each connection plans only once; for texts of which there are few. */
export function prepared(text: string): EngineStatement {
  const known = statements.get(text);
  if (known !== undefined) return known;
  const statement = { name: `engine_${createHash("sha256").update(text).digest("hex").slice(0, 16)}`, text };
  statements.set(text, statement);
  return statement;
}

// Codes of node and of Postgres (appendix A of its manual) that say "not now" rather than "not
// this".
const transientCodes =
  /^(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ENOENT|EPIPE|ETIMEDOUT|08\w{3}|57P0[1-5]|53100|53300|40001|40P01|55P03)$/;
// node-postgres gives these no code.
const transientMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/;

/**
 * Whether the same statement may succeed later: the connection or the server went away, its disk is
 * full, or a deadlock was resolved.
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isTransient);
  if (error instanceof WavesmithError && error.code === "database" && error.retryable) return true;
  const { code } = error as { code?: unknown };
  return (typeof code === "string" && transientCodes.test(code)) || transientMessages.test(error.message);
}

/** Runs `work` on one connection between BEGIN and COMMIT; rolls back on a throw. */
export async function inTransaction<Result>(
  database: EngineDatabase,
  begin: string,
  work: (connection: EngineConnection, begun: unknown) => Promise<Result>,
): Promise<Result> {
  const connection = await database.connect();
  // A client that dies between two queries emits `error`, which would end the process; the next
  // query rejects anyway.
  const ignore = () => undefined;
  connection.on("error", ignore);
  let broken: Error | null = null;
  try {
    const begun = await connection.query(begin);
    const result = await work(connection, begun);
    await connection.query("COMMIT");
    return result;
  } catch (error) {
    broken = await rolledBack(connection);
    throw error;
  } finally {
    connection.removeListener("error", ignore);
    connection.release(broken ?? false);
  }
}

async function rolledBack(connection: EngineConnection): Promise<Error | null> {
  try {
    await connection.query("ROLLBACK");
    return null;
  } catch (error) {
    return error as Error; // the connection is thrown away, which rolls back as well
  }
}

/** Does `work` again while the database is away, for as long as `goOn` says; other errors pass. */
export async function withDatabase<Result>(work: () => Promise<Result>, goOn: () => boolean): Promise<Result> {
  for (let delayMs = 25; ; delayMs = Math.min(delayMs * 2, 1_000)) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (!goOn()) throw new WavesmithError("database", "the database is away", { retryable: true, cause: error });
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
  }
}
