import type { AgentEnd } from "../../agents/port.ts";
import { saysDiskFull } from "../../domain/disk-full.ts";
import type { ModelOwnerKind } from "../../models/port.ts";
import type { JobState, SandboxEndpoint, StageState } from "../../sandbox/port.ts";
import type { AttemptRow, BuildRow, GateRunRow } from "../../store/port.ts";
import { createMask, type Mask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";

/** Whose job it is that may show its token of the model proxy. */
type TokenOwner = Readonly<{ kind: ModelOwnerKind; id: string; fence: number }>;

/**
 * Every value that no output may show, by name: the plan's secrets, what we sign in with, the job's
 * own token.
 */
export async function coveredValues(
  ports: Ports,
  { plan }: BuildRow,
  owner: TokenOwner | null,
): Promise<Record<string, string>> {
  const token = owner === null ? null : await ports.models.tokenFor(owner.kind, owner.id, owner.fence);
  return {
    ...ports.secrets.own(),
    ...ports.secrets.values(plan.secrets),
    ...(token === null ? {} : { WAVESMITH_MODEL_TOKEN: token }),
  };
}

export const maskOf = async (ports: Ports, build: BuildRow, owner: TokenOwner | null): Promise<Mask> =>
  createMask(await coveredValues(ports, build, owner));

export const attemptMask = (ports: Ports, build: BuildRow, { id, fence }: AttemptRow): Promise<Mask> =>
  maskOf(ports, build, { kind: "attempt", id, fence });

export const gateMask = (ports: Ports, build: BuildRow, { id, fence }: GateRunRow): Promise<Mask> =>
  maskOf(ports, build, { kind: "gate", id, fence });

/** Why a job was ended: the time limit of its plan. */
export const overBudget = "over-budget";

/** The end of a job as the guest told it; null when the job never ran. */
export async function jobStateOf(ports: Ports, jobKey: string): Promise<JobState | null> {
  const job = await ports.store.jobs.find({ key: jobKey });
  return (job?.state as JobState | null) ?? null;
}

const lastLines = (text: string, lines: number, maxChars: number): string =>
  text.trimEnd().split("\n").slice(-lines).join("\n").slice(-maxChars);

export const outputTail = (text: string): string => lastLines(text, 20, 4096);

/** A stage's output, secrets masked: all of it, or its first and last half MiB. */
export async function stageOutput(
  endpoint: SandboxEndpoint,
  jobKey: string,
  stage: StageState,
  mask: Mask,
): Promise<string> {
  const half = 512 * 1024;
  const margin = 64 * 1024;
  const start = stage.outputStart ?? 0;
  const end = stage.outputEnd ?? start;
  const read = async (from: number, to: number): Promise<string> => {
    const parts: Buffer[] = [];
    for (let offset = from; offset < to; ) {
      const chunk = await endpoint.guest.readOutput(jobKey, { offset, limitBytes: to - offset });
      if (chunk.data.length === 0) break;
      parts.push(chunk.data);
      offset = chunk.nextOffset;
    }
    return Buffer.concat(parts).toString("utf8");
  };
  if (end - start <= 2 * (half + margin)) return mask(await read(start, end));
  // What is beyond each half is read as well, so that a secret across its end is recognised.
  const [first, last] = [await read(start, start + half + margin), await read(end - half - margin, end)];
  const head = mask.within(first, 0, half);
  const tail = mask.within(last, last.length - half, last.length);
  return `${head.slice(0, Math.max(0, head.lastIndexOf("\n")))}\n[…]\n${tail.slice(tail.indexOf("\n") + 1 || tail.length)}`;
}

/** The first stage that went wrong, else null. */
export const failedStage = (state: JobState): StageState | null =>
  state.stages.find((stage) => stage.status === "failed") ?? null;

/** In words: what a stage did that counts as failing. */
export function describeFailure(stage: StageState): string {
  if (stage.timedOut) return `${stage.name} exceeded its timeout${after(stage.durationMs)}`;
  if (stage.outOfMemory) return `${stage.name} ran out of memory`;
  if (stage.error !== null && saysDiskFull(stage.error)) return `${stage.name} was ended: ${stage.error}`;
  if (stage.error !== null) return `${stage.name} could not run: ${stage.error}`;
  if (stage.signal !== null) return `${stage.name} was ended by ${stage.signal}`;
  return `${stage.name} exited with ${stage.exitCode}`;
}

const after = (ms: number | null): string => (ms === null ? "" : ` after ${Math.round(ms / 1000)}s`);

/** In words: how an agent of the Agent Client Protocol says it ended. */
export const endText = ({ end, detail }: { end: AgentEnd; detail: string }): string =>
  `the agent ended: ${end.replaceAll("-", " ")}${detail === "" ? "" : `: ${detail}`}`;
