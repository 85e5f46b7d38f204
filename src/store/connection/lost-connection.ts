import { messageOf, WavesmithError } from "../../domain/errors.ts";

/** The connection was lost during a statement or transaction, which may or may not be committed. */
export class ConnectionLost extends WavesmithError {
  /** Whether nothing changed, because the transaction was lost before its commit was sent. */
  isUndone = false;

  constructor(address: string, cause: unknown) {
    super("database", `lost the connection to Postgres at ${address}: ${messageOf(cause)}`, {
      retryable: true,
      remedy: "try again once Postgres answers",
      cause,
    });
  }
}

// Node's and Postgres's codes (appendix A of the Postgres manual) for a lost or failed connection.
const codes = /^(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ENOENT|EPIPE|ETIMEDOUT|08\w{3}|57P0[1-5])$/;
// node-postgres gives these errors no code.
const messages = /Connection terminated|timeout exceeded when trying to connect|not queryable/;

/** Whether an error of the database client only means that the connection is gone. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  if (error instanceof WavesmithError || !(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isConnectionLost)) return true;
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? messages.test(error.message) : codes.test(code);
}
