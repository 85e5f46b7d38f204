// The schemas of a guest's answers. Agents share its machine, so nothing it reports is trusted
// before it is checked.
import { z } from "zod";
import type { ExecResult, FileStat, GuestErrorBody, GuestHealth, JobState } from "../../guest/protocol.ts";

const text = z.string().max(100_000);
const whole = z.number().int().nonnegative();
const port = z.number().int().min(1).max(65_535);

/** Shown to people as something to put into a plan. */
const refusedHost = z.object({ host: z.string().regex(/^[a-z\d][a-z\d._-]{0,251}(:\d{1,5})?$/), at: text });

export const healthSchema: z.ZodType<GuestHealth> = z.object({
  protocol: whole,
  pid: whole,
  bootId: z.string().min(1).max(200),
  startedAt: text,
  isolation: z.enum(["bubblewrap", "users", "sweep"]),
  workspaceRoot: z.string().startsWith("/").max(4_096),
  activeJobs: whole,
  idleMs: z.number().nonnegative(),
  // A guest of an earlier version leaves it out.
  egress: z
    .object({ proxyPort: port.nullable(), modelPort: port, refused: z.array(refusedHost).max(100).default([]) })
    .nullable()
    .default(null),
});

export const fileStatSchema: z.ZodType<FileStat> = z
  .object({
    path: text,
    type: z.enum(["file", "directory", "symlink", "other"]),
    sizeBytes: whole,
    mode: whole,
    modifiedAt: text,
    etag: text.optional(),
  })
  .transform(({ etag, ...stat }) => (etag === undefined ? stat : { ...stat, etag }));

export const fileStatsSchema = z.array(fileStatSchema);

const stageStateSchema = z.object({
  name: text,
  status: z.enum(["pending", "running", "ready", "passed", "failed", "skipped"]),
  startedAt: text.nullable(),
  endedAt: text.nullable(),
  durationMs: z.number().nonnegative().nullable(),
  exitCode: z.number().int().nullable(),
  signal: text.nullable(),
  timedOut: z.boolean(),
  outOfMemory: z.boolean(),
  truncated: z.boolean(),
  outputStart: whole.nullable(),
  outputEnd: whole.nullable(),
  error: text.nullable(),
});

export const jobStateSchema: z.ZodType<JobState> = z.object({
  key: text,
  status: z.enum(["running", "passed", "failed", "cancelled", "lost"]),
  revision: whole,
  stages: z.array(stageStateSchema).max(1_000),
  createdAt: text,
  endedAt: text.nullable(),
  cancelReason: text.nullable(),
  outputBytes: whole,
  labels: z.record(z.string(), text),
});

export const jobStatesSchema = z.array(jobStateSchema);

export const execResultSchema: z.ZodType<ExecResult> = z.object({
  exitCode: z.number().int().nullable(),
  signal: text.nullable(),
  timedOut: z.boolean(),
  truncated: z.boolean(),
  stdout: z.string(),
  stderr: z.string(),
  durationMs: z.number().nonnegative(),
});

export const portsSchema = z.object({ ports: z.array(port) });

const batchAnswerSchema = z.union([
  z.object({ fault: z.object({ status: whole, code: z.string().max(100), message: z.string().max(10_000) }) }),
  z.object({ value: z.unknown() }),
]);

export const batchSchema = z.object({ answers: z.array(batchAnswerSchema).max(1_000) });

export const errorSchema: z.ZodType<GuestErrorBody> = z.object({
  error: z.object({ code: z.string().max(100), message: z.string().max(10_000) }),
});
