import type { AgentEnd } from "../../agents/port.ts";
import { saysDiskFull } from "../../domain/disk-full.ts";
import { withoutUsage } from "../../domain/gate/output-tail.ts";
import type { ModelOwnerKind } from "../../models/port.ts";
import type { JobState, SandboxEndpoint, StageState } from "../../sandbox/port.ts";
import type { AttemptRow, BuildRow, GateRunRow } from "../../store/port.ts";
import { createMask, type Mask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";

/** The owner of a job whose output may show its model proxy token. */
type TokenOwner = Readonly<{ kind: ModelOwnerKind; id: string; fence: number }>;

/** Returns every value to mask, by name: the plan's secrets, our credentials, the job's token. */
export async function valuesToMask(
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
  createMask(await valuesToMask(ports, build, owner));

export const attemptMask = (ports: Ports, build: BuildRow, { id, fence }: AttemptRow): Promise<Mask> =>
  maskOf(ports, build, { kind: "attempt", id, fence });

export const gateMask = (ports: Ports, build: BuildRow, { id, fence }: GateRunRow): Promise<Mask> =>
  maskOf(ports, build, { kind: "gate", id, fence });

/** Why a job was ended: the time limit of its plan. */
export const overBudget = "over-budget";

/** Returns a job's end as the guest reported it; null when the job never ran. */
export async function jobStateOf(ports: Ports, jobKey: string): Promise<JobState | null> {
  const job = await ports.store.jobs.find({ key: jobKey });
  return (job?.state as JobState | null) ?? null;
}

const lastLines = (text: string, lines: number, maxChars: number): string =>
  withoutUsage(text.trimEnd().split("\n")).slice(-lines).join("\n").slice(-maxChars);

export const outputTail = (text: string): string => lastLines(text, 20, 4096);

/** Returns a stage's output with secrets masked: all of it, or its first and last half MiB. */
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
  // Read a little beyond each half, to recognise a secret that is cut by its end.
  const [first, last] = [await read(start, start + half + margin), await read(end - half - margin, end)];
  const head = mask.within(first, 0, half);
  const tail = mask.within(last, last.length - half, last.length);
  return `${head.slice(0, Math.max(0, head.lastIndexOf("\n")))}\n[…]\n${tail.slice(tail.indexOf("\n") + 1 || tail.length)}`;
}

/** Returns the first failed stage, or null. */
export const failedStage = (state: JobState): StageState | null =>
  state.stages.find((stage) => stage.status === "failed") ?? null;

/** Describes why a stage counts as failed. */
export function describeFailure(stage: StageState): string {
  if (stage.timedOut) return `${stage.name} exceeded its timeout${after(stage.durationMs)}`;
  if (stage.outOfMemory) return `${stage.name} ran out of memory`;
  if (stage.error !== null && saysDiskFull(stage.error)) return `${stage.name} was ended: ${stage.error}`;
  if (stage.error?.startsWith(stage.name)) return stage.error;
  if (stage.error !== null) return `${stage.name} could not run: ${stage.error}`;
  if (stage.signal !== null) return `${stage.name} was ended by ${stage.signal}`;
  return `${stage.name} exited with ${stage.exitCode}`;
}

const after = (ms: number | null): string => (ms === null ? "" : ` after ${Math.round(ms / 1000)}s`);

/** Describes how an ACP agent reports that it ended. */
export const endText = ({ end, detail }: { end: AgentEnd; detail: string }): string =>
  `the agent ended: ${end.replaceAll("-", " ")}${detail === "" ? "" : `: ${detail}`}`;
