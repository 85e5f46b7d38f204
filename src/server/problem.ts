import { type ErrorCode, messageOf, WavesmithError } from "../domain/errors.ts";

// Translates our errors into HTTP (RFC 9457). Inngest's clients read `error` and `status`.

const statuses: Partial<Record<ErrorCode, number>> = {
  usage: 400,
  "plan-invalid": 400,
  unsupported: 400,
  "not-found": 404,
  conflict: 409,
  "stale-fence": 409,
  environment: 503,
};

/** Creates an `application/problem+json` answer. */
export function problem(status: number, code: string, detail: string, remedy: string | null = null): Response {
  const body = { type: "about:blank", status, code, detail, ...(remedy === null ? {} : { remedy }), error: detail };
  return Response.json(body, { status, headers: { "content-type": "application/problem+json" } });
}

/** Turns anything thrown into an answer; hides the details of errors that are not ours. */
export function problemOf(error: unknown, warn: (message: string) => void): Response {
  if (error instanceof WavesmithError) {
    const status = statuses[error.code] ?? (error.retryable ? 503 : 500);
    return problem(status, error.code, error.message, error.remedy);
  }
  warn(`a request failed: ${messageOf(error)}`);
  return problem(500, "internal", "the server failed; its log says why");
}
