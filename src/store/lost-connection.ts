import { messageOf, WavesmithError } from "../domain/errors.ts";

/**
 * A statement or transaction was cut off together with its connection: what it wrote may be
 * committed, or not.
 */
export class ConnectionLost extends WavesmithError {
  /** A transaction that ended so before its commit was sent changed nothing. */
  isUndone = false;

  constructor(address: string, cause: unknown) {
    super("database", `lost the connection to Postgres at ${address}: ${messageOf(cause)}`, {
      retryable: true,
      remedy: "do it again once Postgres answers",
      cause,
    });
  }
}

// Codes of node and of Postgres (appendix A of its manual) for a connection that is gone or cannot
// be made now.
const codes = /^(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ENOENT|EPIPE|ETIMEDOUT|08\w{3}|57P0[1-5])$/;
// node-postgres gives these no code.
const messages = /Connection terminated|timeout exceeded when trying to connect|not queryable/;

/** Whether a failure of the database's client says no more than that the connection is gone. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  if (error instanceof WavesmithError || !(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isConnectionLost)) return true;
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? messages.test(error.message) : codes.test(code);
}
