import { ApiError } from "../../client/api-error.ts";
import { type ErrorCode, WavesmithError } from "../../domain/errors.ts";

/** The codes that only the API has, as commands say them. */
const codes: Readonly<Record<string, ErrorCode>> = {
  unreachable: "environment",
  unauthorized: "environment",
  forbidden: "environment",
  "too-large": "usage",
  internal: "internal",
};

const remedies: Readonly<Record<string, string>> = {
  unreachable: "check the address, and that the server is running",
  unauthorized: "set WAVESMITH_KEY to a key of that server; it prints where its own is when it starts",
};

/** Whether the server may answer the same request later. */
export const isPassing = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);

/**
 * Waits for an answer. Turns a failure into the error that commands report for a data directory.
 */
export async function inOurWords<Data>(answer: Promise<Data>): Promise<Data> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof ApiError ? wavesmithErrorOf(error) : error;
  }
}

function wavesmithErrorOf(error: ApiError): WavesmithError {
  const { code, message, retryAfterMs } = error;
  const remedy = remedies[code] ?? error.remedy;
  return new WavesmithError(codes[code] ?? (code as ErrorCode), message, {
    retryable: isPassing(error),
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(remedy === null ? {} : { remedy }),
    cause: error,
  });
}
