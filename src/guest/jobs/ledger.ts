// The state of one job: in memory for callers that wait, on the volume for callers that come later.
// JL1. The first record is on the disk before anything starts, and the last one before the end is
// reported.

import { messageOf } from "../faults.ts";
import type { JobState, StageState } from "../protocol.ts";
import type { ChangeNotifier } from "./changes.ts";
import { saveRecord } from "./record.ts";

export interface Ledger {
  state(): JobState;
  readonly changes: ChangeNotifier;
  updateStage(index: number, change: Partial<StageState>): void;
  /**
   * Writes the end and then announces it. If it cannot be written, the job has failed, and its last
   * stage says why.
   */
  settle(change: Pick<JobState, "status" | "endedAt" | "cancelReason" | "outputBytes">): Promise<void>;
}

/** Creates the ledger of a job whose first record has been saved; announces every change. */
export function createJobLedger(folder: string, first: JobState, changes: ChangeNotifier): Ledger {
  let state = first;
  let isBehind = false;
  let saving: Promise<void> | null = null;

  const saveLatest = async (): Promise<void> => {
    while (isBehind) {
      isBehind = false;
      // Only the last record decides, and its failure is reported; this one is for the next guest
      // after a crash.
      await saveRecord(folder, state, false).catch(() => undefined);
    }
    saving = null;
  };
  const become = (next: JobState): void => {
    state = next;
    changes.announce();
  };
  return {
    state: () => state,
    changes,
    updateStage: (index, change) => {
      const stages = state.stages.map((stage, at) => (at === index ? { ...stage, ...change } : stage));
      become({ ...state, stages, revision: state.revision + 1 });
      isBehind = true;
      saving ??= saveLatest();
    },
    settle: async (change) => {
      isBehind = false;
      await saving;
      const end: JobState = { ...state, ...change, revision: state.revision + 1 };
      try {
        await saveRecord(folder, end, true);
        become(end);
      } catch (error) {
        become(withFailedRecord(end, `the job's record could not be written: ${messageOf(error)}`));
      }
    },
  };
}

/** Sets the reason on the last stage that ran, or on the last stage when none did. */
function withFailedRecord(state: JobState, reason: string): JobState {
  const ran = state.stages.findLastIndex((stage) => stage.startedAt !== null);
  const target = ran === -1 ? state.stages.length - 1 : ran;
  const stages = state.stages.map((stage, at) =>
    at === target ? { ...stage, status: "failed" as const, error: stage.error ?? reason } : stage,
  );
  return { ...state, status: state.status === "passed" ? "failed" : state.status, stages };
}

/** Returns the state of a job before anything has started. */
export function firstState(
  key: string,
  stageNames: readonly string[],
  options: { now: Date; labels: JobState["labels"] },
): JobState {
  return {
    key,
    status: "running",
    revision: 1,
    stages: stageNames.map(pendingStage),
    createdAt: options.now.toISOString(),
    endedAt: null,
    cancelReason: null,
    outputBytes: 0,
    labels: options.labels,
  };
}

/** Returns the state of a job that was running when its guest died. */
export function stateAfterGuestDeath(state: JobState, now: Date, outputBytes: number): JobState {
  const endedAt = now.toISOString();
  const stages = state.stages.map((stage): StageState => {
    if (stage.status === "pending") return { ...stage, status: "skipped" };
    if (stage.status !== "running" && stage.status !== "ready") return stage;
    return { ...stage, status: "failed", endedAt, outputEnd: outputBytes, error: "the guest died while it ran" };
  });
  return { ...state, status: "lost", revision: state.revision + 1, stages, endedAt, outputBytes };
}

function pendingStage(name: string): StageState {
  return {
    name,
    status: "pending",
    startedAt: null,
    endedAt: null,
    durationMs: null,
    exitCode: null,
    signal: null,
    timedOut: false,
    outOfMemory: false,
    truncated: false,
    outputStart: null,
    outputEnd: null,
    error: null,
  };
}
