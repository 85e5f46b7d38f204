/** The code of a failure. The list is closed, so that code that maps it can be exhaustive. */
export type ErrorCode =
  | "plan-invalid"
  | "usage"
  | "unsupported"
  | "not-found"
  | "conflict"
  | "stale-fence"
  | "environment"
  | "sandbox-unavailable"
  | "sandbox-path"
  | "guest-protocol"
  | "guest-refused"
  | "archive"
  | "capacity"
  | "git"
  | "database"
  | "engine"
  | "internal";

export interface WavesmithErrorOptions {
  /** Whether a retry may succeed. Default: false. */
  readonly retryable?: boolean;
  /** How long to wait before a retry; set with `capacity`, and where a forge is not to be had. */
  readonly retryAfterMs?: number;
  /** One line that says how to fix it. */
  readonly remedy?: string;
  readonly cause?: unknown;
}

/**
 * The only error class. The message names the thing, the place and the cause; `remedy` says what to
 * do.
 */
export class WavesmithError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly remedy: string | null;

  constructor(code: ErrorCode, message: string, options: WavesmithErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "WavesmithError";
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.remedy = options.remedy ?? null;
  }
}

/** Returns the message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
