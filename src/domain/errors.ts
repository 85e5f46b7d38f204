/** Every failure Wavesmith raises itself; a closed list, so that translators can be exhaustive. */
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
  /** Whether doing the same again later may succeed. Default false. */
  readonly retryable?: boolean;
  /** When that may be, at the earliest; given with `capacity`. */
  readonly retryAfterMs?: number;
  /** What the reader can do about it, one line. */
  readonly remedy?: string;
  readonly cause?: unknown;
}

/**
 * The one error class: the message names the thing, the place and what went wrong; `remedy` says
 * what to do.
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

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
