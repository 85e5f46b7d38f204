import { createHash } from "node:crypto";
import { customAlphabet } from "nanoid";

type Branded<Name extends string> = string & { readonly __id: Name };
export type TenantId = Branded<"tenant">;
export type ProjectId = Branded<"project">;
export type BuildId = Branded<"build">;
export type TaskId = Branded<"task">;
export type WaveId = Branded<"wave">;
export type AttemptId = Branded<"attempt">;
export type GateRunId = Branded<"gate-run">;
export type JobId = Branded<"job">;
export type SandboxId = Branded<"sandbox">;

const prefixes = {
  tenant: "ten",
  project: "proj",
  build: "bld",
  task: "task",
  wave: "wave",
  attempt: "att",
  "gate-run": "gate",
  approval: "appr",
  job: "job",
  sandbox: "sbx",
  snapshot: "snap",
  "model-call": "call",
  process: "proc",
  installation: "inst",
  "data-directory": "dir",
} as const;
export type IdKind = keyof typeof prefixes;

// Lower-case alphanumerics only: ids become refs, folders and host names.
const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
const random = customAlphabet(alphabet, 16);

/** Makes new ids; injected so that tests can count instead. */
export type IdSource = (kind: IdKind) => string;

/** Random ids such as `task_4k2…`. */
export const randomIds: IdSource = (kind) => `${prefixes[kind]}_${random()}`;

/** An id that follows from `parts`: the same parts give the same id on every machine. */
export function derivedId(kind: IdKind, ...parts: string[]): string {
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest();
  let text = "";
  for (let index = 0; index < 16; index += 1) text += alphabet[digest[index]! % alphabet.length];
  return `${prefixes[kind]}_${text}`;
}

/**
 * A build's id follows from the id of the event that asked for it (W13), so a repeated event starts
 * nothing.
 */
export const buildIdForEvent = (eventId: string): BuildId => derivedId("build", requestIdOf(eventId)) as BuildId;

/**
 * The id of a request that is sent again because it was lost: another id, since a repeated one is
 * dropped (W13).
 */
export const repeatedRequestId = (requestId: string, epoch: number): string => `again:${epoch}:${requestId}`;
/** The id under which a request was sent first. */
export const requestIdOf = (eventId: string): string => /^again:\d+:(.+)$/s.exec(eventId)?.[1] ?? eventId;
