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

/** A guest that nobody contacts for this long ends its jobs and itself (W9). */
export const guestSilenceLimitMs = 30 * 60_000;

/** The format of a packed volume: tar with zstd, or with gzip. */
export type ArchiveFormat = "tar.zst" | "tar.gz";

/** A refused host, with its port unless it is a usual one, and the time of its latest request. */
export interface RefusedHost {
  readonly host: string;
  readonly at: string;
}

export interface GuestHealth {
  readonly protocol: number;
  readonly pid: number;
  /** A new id at each start of a guest. */
  readonly bootId: string;
  readonly startedAt: string;
  /**
   * `bubblewrap`: each job has its own pid namespace. `users`: each job has its own user.
   * `sweep`: process groups and /proc sweeps only.
   */
  readonly isolation: "bubblewrap" | "users" | "sweep";
  /** The path of the volume's root for programs inside the sandbox, such as `/workspace`. */
  readonly workspaceRoot: string;
  readonly activeJobs: number;
  /**
   * Milliseconds since the last activity: 0 while jobs, short commands or other requests run or
   * tunnels are open. Health checks are not activity.
   */
  readonly idleMs: number;
  /** The ports on loopback that lead out of the sandbox (`--egress`); null where there are none. */
  readonly egress: {
    readonly proxyPort: number | null;
    readonly modelPort: number;
    /** Hosts that were requested although the network is `none`; the newest last. */
    readonly refused?: readonly RefusedHost[];
  } | null;
}

export interface FileStat {
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly sizeBytes: number;
  readonly mode: number;
  readonly modifiedAt: string;
  /** Only for regular files: the value that `If-Match` takes. */
  readonly etag?: string;
}

export interface StageSpec {
  /** Unique in the job, such as `setup`, `agent`, `check-1`. */
  readonly name: string;
  readonly argv: readonly string[];
  /** Relative to the volume's root. */
  readonly cwd: string;
  /**
   * The environment, complete except for PATH, HOME, LANG, TMPDIR, WAVESMITH_PROGRAMS and the
   * egress variables, which the guest sets.
   */
  readonly env: Readonly<Record<string, string>>;
  /** UTF-8 text for stdin. Null: none, which is /dev/null without `openStdin`. */
  readonly stdin: string | null;
  /** Whether numbered input from callers follows on stdin, which then stays open. */
  readonly openStdin?: boolean;
  readonly timeoutMs: number;
  /** Output beyond this size is dropped from the middle: the beginning and the last 64 KiB stay. */
  readonly outputLimitBytes: number;
  /** Runs beside the following stages until the job ends. */
  readonly background?: boolean;
  /** The stage is ready when this probe succeeds (background stages), within `timeoutMs`. */
  readonly ready?:
    | { readonly argv: readonly string[] }
    | { readonly http: { readonly port: number; readonly path: string } };
  /** Whether the stages after it run even if this one fails. */
  readonly continueOnFailure?: boolean;
  /** Whether it runs even after an earlier stage failed (clean-up). */
  readonly always?: boolean;
}

export interface JobSpec {
  readonly stages: readonly StageSpec[];
  /**
   * Volume paths that this job may write, created as folders if missing; the rest of the volume is
   * read-only where the isolation can enforce that.
   */
  readonly writable: readonly string[];
  /** Volume folders that appear empty to this job, where the isolation can do that. */
  readonly hidden?: readonly string[];
  /**
   * The job's TCP ports: where each job has its own loopback, tunnels to these ports lead there.
   */
  readonly ports?: readonly number[];
  /** The key of a job that must end first, in whatever way; an unknown job counts as ended. */
  readonly after?: string;
  /**
   * The paths among `writable` that other jobs write at the same time. Where jobs have users, those
   * jobs share a group.
   */
  readonly shared?: readonly string[];
  /** Labels kept with the record: build, attempt, … */
  readonly labels: Readonly<Record<string, string>>;
}

/** `ready`: a background stage that became ready and is still running. */
type StageStatus = "pending" | "running" | "ready" | "passed" | "failed" | "skipped";

export interface StageState {
  readonly name: string;
  readonly status: StageStatus;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly durationMs: number | null;
  /**
   * 127: no such command; 126: it cannot be executed; 128 plus the signal number when a signal
   * ended it; null: it never ran or is still running.
   */
  readonly exitCode: number | null;
  /** The signal that ended it, derived from the exit code where the isolation reports only that. */
  readonly signal: string | null;
  readonly timedOut: boolean;
  readonly outOfMemory: boolean;
  readonly truncated: boolean;
  /** Where this stage's output begins and ends in the job's output, in bytes. */
  readonly outputStart: number | null;
  readonly outputEnd: number | null;
  /**
   * Why it failed when the exit code does not say: it did not start, was not ready, ended too
   * early, or was ended with the job or by a background stage; otherwise null. Names the stage.
   */
  readonly error: string | null;
}

/**
 * `lost`: the guest ended or died while the job ran, and nothing of the job is left. A cancelled
 * key never starts.
 */
type JobStatus = "running" | "passed" | "failed" | "cancelled" | "lost";

export interface JobState {
  readonly key: string;
  readonly status: JobStatus;
  /** Increases with every change. */
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
  /** The limit per stream; output beyond it is dropped and `truncated` is set. */
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

/** A small request in a batch; `read` takes files up to 256 KiB. */
export type BatchCall =
  | { readonly call: "stat"; readonly path: string }
  | { readonly call: "read"; readonly path: string; readonly maxBytes: number }
  | { readonly call: "write"; readonly path: string; readonly text: string }
  | { readonly call: "remove"; readonly path: string; readonly recursive: boolean }
  | { readonly call: "ports"; readonly count: number }
  | { readonly call: "forget"; readonly key: string };

/**
 * The answer to one request of a batch: a file's bytes are in base64, null stands for no content.
 */
export type BatchAnswer =
  | { readonly value: unknown }
  | { readonly fault: { readonly status: number; readonly code: string; readonly message: string } };

export const largestBatchReadBytes = 256 * 1024;

export interface GuestErrorBody {
  readonly error: { readonly code: string; readonly message: string };
}
