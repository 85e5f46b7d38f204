import { createHash } from "node:crypto";
import { customAlphabet } from "nanoid";
import { itemAt } from "./known.ts";

const prefixes = {
  tenant: "ten",
  key: "key",
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
  notification: "ntf",
  "pull-request": "pr",
  schedule: "sch",
  process: "proc",
  installation: "inst",
  "data-directory": "dir",
} as const;
export type IdKind = keyof typeof prefixes;

/** The id of one kind of thing; an id of another kind does not fit in its place. */
export type Id<Kind extends IdKind> = string & { readonly __id: Kind };
export type TenantId = Id<"tenant">;
export type KeyId = Id<"key">;
export type ProjectId = Id<"project">;
export type BuildId = Id<"build">;
export type TaskId = Id<"task">;
export type WaveId = Id<"wave">;
export type AttemptId = Id<"attempt">;
export type GateRunId = Id<"gate-run">;
export type NotificationId = Id<"notification">;
export type PullRequestId = Id<"pull-request">;
export type ScheduleId = Id<"schedule">;
export type SandboxId = Id<"sandbox">;
/** Replaces an id with a plain string; leaves every other type unchanged. */
export type Unbranded<Value> = Value extends Id<IdKind> ? string : Value;

// Lower-case letters and digits only, because ids become refs, folders and host names.
const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
const random = customAlphabet(alphabet, 16);

const idOf = <Kind extends IdKind>(kind: Kind, text: string) => `${prefixes[kind]}_${text}` as Id<Kind>;

/** Makes new ids; injected so that tests get predictable ones. */
export type IdSource = <Kind extends IdKind>(kind: Kind) => Id<Kind>;

/** Makes random ids such as `task_4k2…`. */
export const randomIds: IdSource = (kind) => idOf(kind, random());

/** Derives an id from `parts`: the same parts give the same id on every machine. */
export function derivedId<Kind extends IdKind>(kind: Kind, ...parts: string[]): Id<Kind> {
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest();
  let text = "";
  for (let index = 0; index < 16; index += 1) text += alphabet[itemAt(digest, index) % alphabet.length];
  return idOf(kind, text);
}
