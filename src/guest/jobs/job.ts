// A job: its stages in order, and an end after which nothing of it is left.
// JB1. Stages run one after another. A background stage runs beside those that follow and is ended
// with the job; if it ends by itself before that, the job fails and the running stage is ended.
// JB2. After a failure only stages marked `always` run; after a cancel, none.
// JB3. A job whose last stage is a background stage (a preview) runs until that stage dies or the
// job is cancelled.
// JB4. The end is reported only after every process is gone, the output is written and the record
// is on the disk.
// JB5. A job that must come after another one waits in its first stage until that job has ended, or
// until it is ended itself.
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../faults.ts";
import { makeFolder } from "../files/make-folders.ts";
import { removeTree } from "../files/remove-tree.ts";
import type { Wanted } from "../isolation/holders.ts";
import type { Loopback } from "../isolation/loopback.ts";
import { admitProgram, type GuestParts, ownerOf, type ScratchFolder } from "../parts.ts";
import type { JobSpec, JobState, StageSpec, StageState } from "../protocol.ts";
import { type ChangeNotifier, createChanges } from "./changes.ts";
import { createJobInput, type JobInput } from "./input.ts";
import { createJobLedger, firstState, type Ledger } from "./ledger.ts";
import { createJobOutput, outputSize } from "./output.ts";
import { probeReady } from "./ready.ts";
import { saveRecord } from "./record.ts";
import { type StageEnd, type StageRun, type StageSurroundings, startStage } from "./stage.ts";

const probePauseMs = 100;
/** The time between SIGTERM and SIGKILL when the guest itself ends a program. */
export const ownGraceMs = 5_000;

export interface GuestJob {
  state(): JobState;
  /** Announces a new state or more output. */
  readonly changes: ChangeNotifier;
  readonly outputPath: string;
  readonly input: JobInput | null;
  /** Resolves when the job has ended, for whatever reason. */
  readonly ended: Promise<void>;
  /**
   * Ends the job as cancelled; a further call only shortens the grace period. Does nothing when the
   * job has ended.
   */
  cancel(reason: string, graceMs: number): void;
  /** Ends the job as lost, because the guest is ending. */
  lose(graceMs: number): void;
}

/** Where a job's record is stored, its key, and the end it waits for before its first stage. */
export interface JobPlace {
  readonly folder: string;
  readonly key: string;
  readonly before?: Promise<void> | undefined;
}

/**
 * Records the job on the disk, then starts it. Fails, with nothing started or stored, when the disk
 * is full or a path leads out of the volume.
 */
export async function startGuestJob(parts: GuestParts, place: JobPlace, spec: JobSpec): Promise<GuestJob> {
  const { folder, key, before } = place;
  const admitted = await admitProgram(parts, foldersOf(spec));
  await makeFolder(folder, 0o700);
  let scratch: ScratchFolder | null = null;
  let loopback: Loopback | null = null;
  try {
    scratch = await parts.scratch.create(admitted.user);
    loopback = (await parts.loopbacks?.open(spec.ports ?? [])) ?? null;
    const conductor: { current: Conductor | null } = { current: null };
    const changes = createChanges();
    const onProblem = (): void => conductor.current?.outputFailed();
    const output = await createJobOutput(outputPathOf(folder), { changes, onProblem });
    const first = firstState(
      key,
      spec.stages.map((stage) => stage.name),
      { now: parts.now(), labels: spec.labels },
    );
    await saveRecord(folder, first, true);
    const input = createJobInput(join(folder, "stdin.log"));
    const owner = ownerOf(parts.volume, key);
    const around = { parts, owner, folder, ...admitted, scratch, loopback, output, input };
    conductor.current = new Conductor(around, spec, { ledger: createJobLedger(folder, first, changes), before });
    return conductor.current;
  } catch (error) {
    loopback?.close();
    await scratch?.remove();
    await removeTree(folder).catch(() => undefined); // There is no record yet, so the next guest removes the folder at its start.
    throw error;
  }
}

const foldersOf = ({ writable, hidden, shared = [], stages }: JobSpec): Wanted => ({
  writable,
  hidden,
  shared,
  cwd: stages[0]?.cwd ?? ".",
});

/** Returns the path of a job's output file. */
export function outputPathOf(folder: string): string {
  return join(folder, "output.log");
}

/** Why we are ending a stage; null while it ends by itself. */
type Intent = "timeout" | "not-ready" | "interrupted" | "background-ended" | "output-failed" | "job-over";

interface ActiveStage {
  readonly run: StageRun;
  readonly settled: Promise<void>;
  /** Whether the stages after it wait for it. */
  isAwaited: boolean;
  intent: Intent | null;
  /** Why the last probe did not find it ready. */
  lack: string | null;
}

const spanText = (ms: number): string => (ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`);

class Conductor implements GuestJob {
  readonly changes: ChangeNotifier;
  readonly outputPath: string;
  readonly input: JobInput;
  readonly ended: Promise<void>;
  readonly #around: StageSurroundings;
  readonly #spec: JobSpec;
  readonly #ledger: Ledger;
  readonly #before: Promise<void> | undefined;
  readonly #active = new Map<number, ActiveStage>();
  readonly #probes = new AbortController();
  #interrupted: { status: "cancelled" | "lost"; reason: string } | null = null;
  #interruptGraceMs = Number.POSITIVE_INFINITY;
  /** Whether the interruption ended or skipped a stage, so that it decides how the job ended. */
  #isCutShort = false;
  #isOver = false;
  /** Whether a stage failed, and with it the job. */
  #hasFailed = false;
  /** Whether a stage failed that later stages rely on. */
  #isHalted = false;
  #endedBackground = "";

  constructor(
    around: StageSurroundings,
    spec: JobSpec,
    { ledger, before }: { ledger: Ledger; before: Promise<void> | undefined },
  ) {
    this.#around = around;
    this.#spec = spec;
    this.#before = before;
    this.#ledger = ledger;
    this.changes = ledger.changes;
    this.outputPath = outputPathOf(around.folder);
    this.input = around.input;
    this.ended = this.#conduct();
  }

  state(): JobState {
    const state = this.#ledger.state();
    return state.status === "running" ? { ...state, outputBytes: this.#around.output.sizeBytes() } : state;
  }

  cancel(reason: string, graceMs: number): void {
    this.#interrupt({ status: "cancelled", reason }, graceMs);
  }

  lose(graceMs: number): void {
    this.#interrupt({ status: "lost", reason: "the guest was shut down" }, graceMs);
  }

  /** Called when the output can no longer be written. */
  outputFailed(): void {
    this.#hasFailed = true;
    for (const stage of this.#active.values()) this.#end(stage, "output-failed", 0);
  }

  #interrupt(why: { status: "cancelled" | "lost"; reason: string }, graceMs: number): void {
    // Once all stages are done, the interruption no longer changes the outcome; it only ends what
    // is left sooner.
    if (!this.#isOver) this.#interrupted ??= why;
    this.#interruptGraceMs = Math.min(this.#interruptGraceMs, graceMs);
    this.#probes.abort();
    for (const stage of this.#active.values()) this.#end(stage, "interrupted", graceMs);
  }

  async #conduct(): Promise<void> {
    let fault: string | null = null;
    try {
      await this.#runStages();
    } catch (error) {
      fault = messageOf(error);
    }
    this.#isOver = true;
    this.#probes.abort();
    for (const stage of this.#active.values()) this.#end(stage, "job-over", ownGraceMs);
    await Promise.all([...this.#active.values()].map((stage) => stage.settled));
    await this.#settle(fault);
  }

  /** Waits for the job that must end first (JB5). */
  async #awaitBefore(before: Promise<void>): Promise<void> {
    this.#ledger.updateStage(0, { status: "running", startedAt: this.#around.parts.now().toISOString() });
    const interrupted = new Promise<void>((resolve) =>
      this.#probes.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    await Promise.race([before, interrupted]);
  }

  async #runStages(): Promise<void> {
    if (this.#before !== undefined && this.#interrupted === null) await this.#awaitBefore(this.#before);
    for (const [index, stage] of this.#spec.stages.entries()) {
      if (this.#interrupted !== null || (this.#isHalted && stage.always !== true)) {
        this.#isCutShort ||= this.#interrupted !== null;
        this.#ledger.updateStage(index, { status: "skipped" });
      } else {
        await this.#runStage(index, stage);
      }
    }
    const last = this.#spec.stages.length - 1;
    if (this.#interrupted !== null || this.#isHalted) return;
    const preview = this.#spec.stages[last]?.background === true ? this.#active.get(last) : undefined;
    if (preview === undefined) return;
    preview.isAwaited = true;
    await preview.settled;
  }

  async #runStage(index: number, stage: StageSpec): Promise<void> {
    const active = await this.#begin(index, stage);
    if (active === null) return;
    if (stage.background === true) {
      await this.#awaitReady(index, stage, active);
      active.isAwaited = false;
      return;
    }
    const timer = setTimeout(() => this.#end(active, "timeout", ownGraceMs), stage.timeoutMs);
    await active.settled;
    clearTimeout(timer);
  }

  /** Starts the stage's program. Records the failure and returns null when it cannot be started. */
  async #begin(index: number, stage: StageSpec): Promise<ActiveStage | null> {
    const startedAt = this.#around.parts.now();
    const outputStart = this.#around.output.position();
    this.#ledger.updateStage(index, { status: "running", startedAt: startedAt.toISOString(), outputStart });
    let run: StageRun;
    try {
      run = await startStage(this.#around, stage);
    } catch (error) {
      const outputEnd = this.#around.output.position();
      const end = {
        status: "failed",
        outputEnd,
        error: `${stage.name} could not be started: ${messageOf(error)}`,
      } as const;
      this.#ledger.updateStage(index, { ...end, ...this.#since(startedAt) });
      this.#failed(stage);
      return null;
    }
    const settled = run.done.then((end) => this.#conclude(index, stage, { active, startedAt, end }));
    const active: ActiveStage = { run, settled, isAwaited: true, intent: null, lack: null };
    this.#active.set(index, active);
    if (this.#interrupted !== null) this.#end(active, "interrupted", this.#interruptGraceMs);
    else if (this.#around.output.problem() !== null && stage.always !== true) this.#end(active, "output-failed", 0);
    return active;
  }

  async #awaitReady(index: number, stage: StageSpec, active: ActiveStage): Promise<void> {
    if (stage.ready === undefined) return;
    const deadline = performance.now() + stage.timeoutMs;
    const gone = new AbortController();
    const settled = active.settled.then(() => gone.abort());
    const signal = AbortSignal.any([gone.signal, this.#probes.signal, AbortSignal.timeout(stage.timeoutMs)]);
    while (this.#active.has(index) && active.intent === null) {
      const lack = await probeReady(this.#around, stage, signal);
      if (!this.#active.has(index) || active.intent !== null) break;
      if (lack === null) return this.#ledger.updateStage(index, { status: "ready" });
      // A probe that the deadline ended has learnt nothing.
      if (!signal.aborted) active.lack = lack;
      if (performance.now() >= deadline) this.#end(active, "not-ready", ownGraceMs);
      else await Promise.race([settled, delay(probePauseMs)]);
    }
    await settled;
  }

  #end(active: ActiveStage, intent: Intent, graceMs: number): void {
    active.intent ??= intent;
    active.run.stop(graceMs);
  }

  #conclude(index: number, stage: StageSpec, ran: { active: ActiveStage; startedAt: Date; end: StageEnd }): void {
    const { active, startedAt, end } = ran;
    this.#active.delete(index);
    const passed =
      active.intent === "job-over" || (active.intent === null && end.exitCode === 0 && stage.background !== true);
    this.#ledger.updateStage(index, {
      status: passed ? "passed" : "failed",
      ...this.#since(startedAt),
      exitCode: end.exitCode,
      signal: end.signal,
      timedOut: active.intent === "timeout",
      // A stage that we ended did not run out of memory.
      outOfMemory: active.intent === null && end.outOfMemory,
      truncated: end.output.truncated,
      outputStart: end.output.start,
      outputEnd: end.output.end,
      error: end.error ?? (passed ? null : this.#reason(stage, active, end)),
    });
    if (passed) return;
    this.#isCutShort ||= active.intent === "interrupted";
    this.#failed(stage);
    if (stage.background === true && active.intent === null) this.#backgroundEnded(stage);
  }

  #since(startedAt: Date): Pick<StageState, "endedAt" | "durationMs"> {
    const endedAt = this.#around.parts.now();
    return { endedAt: endedAt.toISOString(), durationMs: Math.max(0, endedAt.getTime() - startedAt.getTime()) };
  }

  #failed(stage: StageSpec): void {
    this.#hasFailed = true;
    if (stage.continueOnFailure !== true) this.#isHalted = true;
  }

  /** Ends the running stage, which relies on the background stage (JB1). */
  #backgroundEnded(stage: StageSpec): void {
    if (stage.continueOnFailure === true) return;
    this.#endedBackground ||= stage.name;
    for (const [index, active] of this.#active) {
      if (active.isAwaited && this.#spec.stages[index]?.always !== true)
        this.#end(active, "background-ended", ownGraceMs);
    }
  }

  #reason(stage: StageSpec, { intent, lack }: ActiveStage, { exitCode, signal }: StageEnd): string | null {
    if (intent === null && stage.background !== true) return null;
    if (intent === null) return `${stage.name} ended before the job did (${signal ?? `exit ${exitCode}`})`;
    const last = lack === null ? "" : `: ${lack}`;
    if (intent === "not-ready") return `${stage.name} was not ready within ${spanText(stage.timeoutMs)}${last}`;
    if (intent === "background-ended") return `ended, because the background stage ${this.#endedBackground} had ended`;
    if (intent === "output-failed") return this.#around.output.problem();
    if (intent === "interrupted") return this.#interrupted?.reason ?? null;
    return null;
  }

  async #settle(fault: string | null): Promise<void> {
    const problem = fault ?? this.#around.output.problem();
    await this.#around.input.close().catch(() => undefined); // Nobody reads it any more.
    await this.#around.output.close().catch(() => undefined); // A failed write has already been recorded as the output's problem.
    this.#around.loopback?.close();
    await this.#around.scratch.remove();
    await this.#sweep();
    if (problem !== null) this.#recordProblem(problem);
    const interrupted = this.#isCutShort ? this.#interrupted : null;
    await this.#ledger.settle({
      status: interrupted?.status ?? (this.#hasFailed || problem !== null ? "failed" : "passed"),
      endedAt: this.#around.parts.now().toISOString(),
      cancelReason: interrupted?.status === "cancelled" ? interrupted.reason : null,
      outputBytes: await outputSize(this.outputPath).catch(() => this.#around.output.sizeBytes()),
    });
  }

  /** Removes what the job's user left in folders that all users may write. */
  async #sweep(): Promise<void> {
    const { parts, user } = this.#around;
    if (parts.holders === null || user === null) return;
    await parts.holders.sweep(user, foldersOf(this.#spec)).catch((error: unknown) => {
      process.stderr.write(`guest: could not remove what a job left behind: ${messageOf(error)}\n`);
    });
  }

  /** Records the problem on a stage, unless one already has an error. */
  #recordProblem(problem: string): void {
    const { stages } = this.#ledger.state();
    if (stages.some((stage) => stage.error !== null)) return;
    const ran = Math.max(
      0,
      stages.findLastIndex((stage) => stage.startedAt !== null),
    );
    this.#ledger.updateStage(ran, { status: "failed", error: problem });
  }
}
