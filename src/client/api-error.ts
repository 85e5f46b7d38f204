/** A failed request: an answer with a problem, or no answer at all. */
export class ApiError extends Error {
  /** The status of the answer; 0 if there was none. */
  readonly status: number;
  /** The stable code from docs/api.md; `unreachable` if the API did not answer. */
  readonly code: string;
  /** The remedy; null if the server names none. */
  readonly remedy: string | null;
  readonly retryAfterMs: number | null;
  /** The whole body of the response, such as the `faults` of a plan. */
  readonly problem: Readonly<Record<string, unknown>>;

  constructor(
    message: string,
    { status, code, remedy = null, retryAfterMs = null, problem = {}, cause }: ApiErrorFields,
  ) {
    super(message, { cause });
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.remedy = remedy;
    this.retryAfterMs = retryAfterMs;
    this.problem = problem;
  }
}

interface ApiErrorFields {
  readonly status: number;
  readonly code: string;
  readonly remedy?: string | null;
  readonly retryAfterMs?: number | null;
  readonly problem?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** Builds the error for an unsuccessful response from its body. */
export function errorOfAnswer({ status, headers, url }: Response, body: unknown): ApiError {
  const problem = objectIn(body);
  const retryAfter = headers.get("retry-after");
  return new ApiError(textIn(problem.detail) ?? `${url} answered ${status}, but not as Wavesmith's API does`, {
    status,
    code: textIn(problem.code) ?? "unreachable",
    remedy: textIn(problem.remedy),
    retryAfterMs: retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : null,
    problem,
  });
}

/** Makes the error of a request that got no answer. */
export function errorWithoutAnswer(url: string, cause: unknown): ApiError {
  const { code, message } = deepest(cause);
  const why = textIn(code) ?? textIn(message) ?? "no answer";
  return new ApiError(`${url} cannot be reached: ${why}`, { status: 0, code: "unreachable", cause });
}

/** Node's fetch hides the reason in the cause of its error. */
function deepest(error: unknown): Readonly<Record<string, unknown>> {
  const { cause } = objectIn(error);
  return cause === undefined ? objectIn(error) : deepest(cause);
}

function objectIn(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  if (typeof value !== "string") return {};
  try {
    return objectIn(JSON.parse(value) ?? {});
  } catch {
    return {};
  }
}

const textIn = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
