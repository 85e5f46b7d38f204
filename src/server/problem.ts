import { type ErrorCode, messageOf, WavesmithError } from "../domain/errors.ts";

// Our errors in terms of HTTP (RFC 9457). `error` and `status` are what Inngest's clients read.

const statuses: Partial<Record<ErrorCode, number>> = {
  usage: 400,
  "plan-invalid": 400,
  unsupported: 400,
  "not-found": 404,
  conflict: 409,
  "stale-fence": 409,
  environment: 503,
};

/** A `application/problem+json` answer. */
export function problem(status: number, code: string, detail: string, remedy: string | null = null): Response {
  const body = { type: "about:blank", status, code, detail, ...(remedy === null ? {} : { remedy }), error: detail };
  return Response.json(body, { status, headers: { "content-type": "application/problem+json" } });
}

/** Anything thrown, as an answer; what is not one of our errors is not shown to the outside. */
export function problemOf(error: unknown, warn: (message: string) => void): Response {
  if (error instanceof WavesmithError) {
    const status = statuses[error.code] ?? (error.retryable ? 503 : 500);
    return problem(status, error.code, error.message, error.remedy);
  }
  warn(`a request failed: ${messageOf(error)}`);
  return problem(500, "internal", "the server failed; its log says why");
}
