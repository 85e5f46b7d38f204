// The guest protocol, version 1: HTTP/1.1 over a byte stream: a unix socket, or one of the channels
// of a stream that carries many (mux.ts). The guest serves one volume. All paths are relative to
// the volume's root, use "/" and never leave it.
//
//   GET    /v1/health                                   -> GuestHealth (also the heartbeat: any request counts)
//   GET    /v1/files?path=P                             -> bytes; ETag. 404 absent, 413 larger than &max=BYTES
//   PUT    /v1/files?path=P[&mode=OCTAL]                <- bytes; If-Match / If-None-Match: * ; parents are made; atomic
//   DELETE /v1/files?path=P[&recursive=1]               -> 204 also when absent
//   GET    /v1/stat?path=P                              -> FileStat, 404
//   GET    /v1/list?path=P                              -> FileStat[] sorted by name
//   PUT    /v1/jobs/KEY                                 <- JobSpec -> JobState (the same key returns the same job)
//   GET    /v1/jobs                                     -> JobState[]
//   GET    /v1/jobs/KEY?revision=N&offset=B&waitMs=M    -> JobState; waits until its revision is above N, its output longer than B, or it has ended, at most M ms
//   GET    /v1/jobs/KEY/output?offset=N&limit=B&waitMs=M-> bytes from offset; x-next-offset, x-output-ended: 0|1
//   POST   /v1/jobs/KEY/stdin?seq=N[&end=1]             <- bytes; a sequence number already taken is acknowledged, not repeated; the first may be any, then each one more
//   POST   /v1/jobs/KEY/cancel                          <- { reason, graceMs } -> JobState once nothing of the job is left
//   DELETE /v1/jobs/KEY                                 -> 204; forgets an ended job's record and output
//   POST   /v1/exec                                     <- ExecSpec -> ExecResult (short commands, at most 5 minutes)
//   GET    /v1/archive?path=P                           -> tar stream of a folder
//   PUT    /v1/archive?path=P                           <- tar stream into a folder
//   POST   /v1/batch                                    <- { calls: BatchCall[] } -> { answers: BatchAnswer[] }; all at once, in no order
//   POST   /v1/ports                                    <- { count } -> { ports } free TCP ports, never handed out twice
//   GET    /v1/tunnel?port=N  (Upgrade: tcp)            -> 101, then raw bytes to 127.0.0.1:N inside the sandbox
//   POST   /v1/shutdown                                 -> 202; ends every job as lost, then the guest
//
// Errors: { error: { code, message } } with 4xx/5xx. Codes: bad-request, path (leads out of the
// volume, or is the guest's own), forbidden, not-found, no-route, exists, is-directory, not-empty,
// changed (412), too-large, running, ended, stdin-gap, stdin-ended, not-started (422: no folder, no
// sandbox), archive (422), no-listener (502), ending (503), no-process (503: the sandbox has as
// many as it may have), no-space (507), internal.

export const guestProtocolVersion = 1;

/** A guest to which nobody has spoken for so long ends its jobs and itself (W9). */
export const guestSilenceLimitMs = 30 * 60_000;

/** A host, with its port where that is not a usual one, and when it was asked for last. */
export interface RefusedHost {
  readonly host: string;
  readonly at: string;
}

export interface GuestHealth {
  readonly protocol: number;
  readonly pid: number;
  /** A new one each time a guest starts. */
  readonly bootId: string;
  readonly startedAt: string;
  /**
   * `bubblewrap`: each job has its own pid namespace. `users`: each job has a user of its own.
   * `sweep`: process groups and /proc sweeps only.
   */
  readonly isolation: "bubblewrap" | "users" | "sweep";
  /** Where the volume's root is for programs inside the sandbox, such as `/workspace`. */
  readonly workspaceRoot: string;
  readonly activeJobs: number;
  /**
   * Milliseconds since anything was done here: 0 while jobs, short commands or other requests run
   * or tunnels are open; asking for health is nothing.
   */
  readonly idleMs: number;
  /** The ports on loopback that lead out of the sandbox (`--egress`); null where there are none. */
  readonly egress: {
    readonly proxyPort: number | null;
    readonly modelPort: number;
    /** What was asked for although the network is `none`; the newest last. */
    readonly refused?: readonly RefusedHost[];
  } | null;
}

export interface FileStat {
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly sizeBytes: number;
  readonly mode: number;
  readonly modifiedAt: string;
  /** Of regular files: what `If-Match` takes. */
  readonly etag?: string;
}

export interface StageSpec {
  /** Unique in the job, such as `setup`, `agent`, `check-1`. */
  readonly name: string;
  readonly argv: readonly string[];
  /** Relative to the volume's root. */
  readonly cwd: string;
  /**
   * The whole environment besides PATH, HOME, LANG, TMPDIR, WAVESMITH_PROGRAMS and the way out,
   * which the guest gives.
   */
  readonly env: Readonly<Record<string, string>>;
  /**
   * UTF-8 text for stdin, then end of file; null: numbered stdin from callers when `openStdin`,
   * else /dev/null.
   */
  readonly stdin: string | null;
  readonly openStdin?: boolean;
  readonly timeoutMs: number;
  /** Output beyond this is dropped from the middle: the beginning and the last 64 KiB are kept. */
  readonly outputLimitBytes: number;
  /** Goes on beside the stages that follow, until the job ends. */
  readonly background?: boolean;
  /** The stage counts as passed when this holds (background stages), within `timeoutMs`. */
  readonly ready?:
    | { readonly argv: readonly string[] }
    | { readonly http: { readonly port: number; readonly path: string } };
  /** When true, a failure of this stage does not stop the stages after it. */
  readonly continueOnFailure?: boolean;
  /** Run even when an earlier stage failed (clean-up). */
  readonly always?: boolean;
}

export interface JobSpec {
  readonly stages: readonly StageSpec[];
  /**
   * Volume paths this job may write, made as folders where missing; everything else on the volume
   * is read-only to it where the isolation can do that.
   */
  readonly writable: readonly string[];
  /**
   * Volume folders in whose place this job has empty ones of its own, where the isolation can do
   * that.
   */
  readonly hidden?: readonly string[];
  /**
   * TCP ports of this job's: where jobs have loopbacks of their own, tunnels to these lead to its
   * one.
   */
  readonly ports?: readonly number[];
  /** The key of a job that has to end first, however it ends; one that is not known has ended. */
  readonly after?: string;
  /**
   * Of `writable`, what other jobs write at the same time. Where jobs have users of their own,
   * these share a group.
   */
  readonly shared?: readonly string[];
  /** Labels kept with the record: build, attempt, … */
  readonly labels: Readonly<Record<string, string>>;
}

/** `ready`: a background stage; it became ready and still runs. */
type StageStatus = "pending" | "running" | "ready" | "passed" | "failed" | "skipped";

export interface StageState {
  readonly name: string;
  readonly status: StageStatus;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly durationMs: number | null;
  /**
   * 127: no such command; 126: it cannot be executed; 128 and the signal's number when a signal
   * ended it; null: it never ran or still runs.
   */
  readonly exitCode: number | null;
  /**
   * The signal that ended it; told from the exit code where the isolation passes nothing else on.
   */
  readonly signal: string | null;
  readonly timedOut: boolean;
  readonly outOfMemory: boolean;
  readonly truncated: boolean;
  /** Where in the job's output this stage's begins and ends, in bytes. */
  readonly outputStart: number | null;
  readonly outputEnd: number | null;
  /**
   * Why it failed when its exit code does not say: not started, not ready, ended with the job or by
   * a background stage; null otherwise.
   */
  readonly error: string | null;
}

/**
 * `lost`: the guest ended or died while it ran; nothing of it is left. A cancelled key never
 * starts.
 */
type JobStatus = "running" | "passed" | "failed" | "cancelled" | "lost";

export interface JobState {
  readonly key: string;
  readonly status: JobStatus;
  /** Raised at every change. */
  readonly revision: number;
  readonly stages: readonly StageState[];
  readonly createdAt: string;
  readonly endedAt: string | null;
  readonly cancelReason: string | null;
  readonly outputBytes: number;
  readonly labels: Readonly<Record<string, string>>;
}

export interface ExecSpec {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly writable: readonly string[];
  readonly timeoutMs: number;
  /** Per stream; what is beyond is dropped and `truncated` set. */
  readonly maxBytes: number;
}

export interface ExecResult {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly timedOut: boolean;
  readonly truncated: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly durationMs: number;
}

/** A small request among others; `read` takes files up to 256 KiB. */
export type BatchCall =
  | { readonly call: "stat"; readonly path: string }
  | { readonly call: "read"; readonly path: string; readonly maxBytes: number }
  | { readonly call: "write"; readonly path: string; readonly text: string }
  | { readonly call: "remove"; readonly path: string; readonly recursive: boolean }
  | { readonly call: "ports"; readonly count: number }
  | { readonly call: "forget"; readonly key: string };

/** What the request alone would have answered with: a file's bytes in base64, null for nothing. */
export type BatchAnswer =
  | { readonly value: unknown }
  | { readonly fault: { readonly status: number; readonly code: string; readonly message: string } };

export const largestBatchReadBytes = 256 * 1024;

export interface GuestErrorBody {
  readonly error: { readonly code: string; readonly message: string };
}
