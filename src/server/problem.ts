import { type ErrorCode, messageOf, WavesmithError } from "../domain/errors.ts";

// Translates our errors into HTTP (RFC 9457). Inngest's clients read `error` and `status`.

const statuses: Partial<Record<ErrorCode, number>> = {
  usage: 400,
  "plan-invalid": 422,
  unsupported: 400,
  "not-found": 404,
  conflict: 409,
  "stale-fence": 409,
  environment: 503,
  capacity: 429,
  database: 503,
};

/** The optional members of a problem. */
export interface ProblemFields {
  readonly remedy?: string | null;
  readonly retryAfterMs?: number | null;
  /** Further members of the body, such as a plan's faults. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Creates an `application/problem+json` answer. */
export function problem(status: number, code: string, detail: string, remedy: string | null = null): Response {
  return problemWith(status, code, detail, { remedy });
}

/** The same, with more members. A 429 or 503 always says when to try again. */
export function problemWith(status: number, code: string, detail: string, fields: ProblemFields): Response {
  const { remedy = null, retryAfterMs = null, extra = {} } = fields;
  const said = remedy === null ? {} : { remedy };
  const body = { type: "about:blank", status, code, detail, ...said, ...extra, error: detail };
  const headers = new Headers({ "content-type": "application/problem+json" });
  if (status === 429 || status === 503) headers.set("retry-after", String(Math.ceil((retryAfterMs ?? 5_000) / 1000)));
  if (status === 401) headers.set("www-authenticate", "Bearer");
  return Response.json(body, { status, headers });
}

/** Turns anything thrown into an answer; hides the details of errors that are not ours. */
export function problemOf(error: unknown, warn: (message: string) => void): Response {
  if (error instanceof WavesmithError) {
    const status = statuses[error.code] ?? (error.retryable ? 503 : 500);
    return problemWith(status, error.code, error.message, error);
  }
  warn(`a request failed: ${messageOf(error)}`);
  return problem(500, "internal", "the server failed; its log says why");
}
