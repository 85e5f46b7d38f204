import {
  type BuildEventFacts,
  type BuildEventName,
  type DomainEvent,
  type EventData,
  makeEvent,
  requestFacts,
} from "../domain/events/events.ts";
import type { AttemptOutcome } from "../domain/status.ts";
import type {
  AttemptInContext,
  AttemptRow,
  BuildRow,
  CommentRow,
  GateRunRow,
  JobRow,
  MessageRow,
  OutboxRow,
  PullRequestRow,
  QuestionRow,
  ScheduleRow,
  StoreTransaction,
  TaskRow,
  WaveRow,
} from "../store/port.ts";
import { recordNotices } from "./notification/record-notices.ts";

/** Emits the events of a build. The data and the id (W13) of each are made in this file alone. */
export function eventsOf(transaction: StoreTransaction, build: BuildRow) {
  const make: Emit<DomainEvent<BuildEventName>> = (name, subject, epoch, facts) => {
    const { tenantId, projectId, id: buildId } = build;
    const base = { tenantId, projectId, buildId, ...requestFacts(build) };
    return makeEvent<BuildEventName>(name, subject, epoch, { ...base, ...facts } as EventData<typeof name>);
  };
  const emit: Emit = async (...facts) => {
    const event = make(...facts);
    await transaction.emit(event);
    await recordNotices(transaction, build, event);
  };
  return {
    ...requestsOf(build, emit),
    ...resultsOf(build, emit),
    /** Reports the n-th activity of an agent's job, for readers only. */
    activity: (jobKey: string, number: number, facts: Omit<BuildEventFacts<"agent/activity.reported">, "jobKey">) =>
      transaction.report(make("agent/activity.reported", `${jobKey}/${number}`, 0, { jobKey, ...facts })),
    /** Emits an event again under the id of another epoch. */
    again: ({ name, eventId, data }: OutboxRow, epoch: number) =>
      transaction.emit(makeEvent(name as BuildEventName, subjectOf({ name, eventId }), epoch, data as BuildEventData)),
  };
}

type BuildEventData = EventData<BuildEventName>;
type Emit<Result = Promise<void>> = <Name extends BuildEventName>(
  name: Name,
  subject: string,
  epoch: number,
  facts: BuildEventFacts<Name>,
) => Result;

/** Returns what an event is about, from its id. */
export const subjectOf = ({ eventId, name }: Pick<OutboxRow, "eventId" | "name">): string =>
  eventId.slice(name.length + 1, eventId.lastIndexOf(":"));

/** Events that ask for something. */
const requestsOf = (build: BuildRow, emit: Emit) => ({
  startWave: (waveNumber: number) => emit("agent/wave.start", `${build.id}/${waveNumber}`, build.epoch, { waveNumber }),
  executeTask: (attempt: AttemptRow, wave: WaveRow, task: { key: string } | null) =>
    emit(`agent/execution.${attempt.role}`, attempt.id, 0, {
      ...attemptFacts(attempt, wave, task),
      role: attempt.role,
    }),
  fixWave: (attempt: AttemptRow, wave: WaveRow, cause: { gate: string; round: number }) =>
    emit("agent/quality.fix", attempt.id, 0, { ...attemptFacts(attempt, wave, null), ...cause }),
  runGate: (run: GateRunRow, wave: WaveRow) =>
    emit(`agent/quality.${run.gate}`, run.id, run.fence, gateFacts(run, wave)),
  requestApproval: (wave: WaveRow) =>
    emit("project/approval.requested", headOf(wave), wave.epoch, { waveNumber: wave.number }),
  /** Each start of a preview has its own subject and epoch. */
  deployPreview: (preview: { waveNumber: number; sha: string }, subject: string, epoch: number) =>
    emit("agent/preview.deploy", subject, epoch, { waveNumber: preview.waveNumber, sha: preview.sha }),
  openPullRequest: ({ id, waveNumber, sha, key, epoch }: PullRequestRow) =>
    emit("agent/pull-request.open", id, epoch, { waveNumber, sha, key, epoch }),
  taskTold: ({ id, key }: TaskRow, { id: messageId, by, text }: MessageRow) =>
    emit("agent/task.told", `${id}/${messageId}`, 0, { taskId: id, taskKey: key, messageId, by, text }),
  commented: ({ id, waveId, file, line, by, text }: CommentRow, taskKey: string | null) =>
    emit("project/wave.commented", `${build.id}/${id}`, 0, { findingId: id, waveId, taskKey, file, line, by, text }),
  cancel: (reason: string) => emit("project/build.cancel-requested", build.id, build.epoch, { reason }),
});

/** Events that report what happened. */
const resultsOf = (build: BuildRow, emit: Emit) => ({
  attemptFinished: ({ attempt, wave, task }: AttemptInContext, { key, ownerFence: fence }: JobRow) =>
    emit("agent/attempt.finished", attempt.id, fence, {
      ...attemptFacts({ ...attempt, fence }, wave, task),
      kind: attempt.kind,
      jobKey: key,
    }),
  schedulePaused: ({ id, name }: ScheduleRow, reason: string) =>
    emit("project/schedule.paused", `${id}/${build.id}`, 0, { scheduleId: id, name, reason }),
  questionAsked: ({ id, role, text, deadlineAt }: QuestionRow, taskKey: string | null) =>
    emit("agent/question.asked", `${build.id}/${id}`, 0, {
      ...{ questionId: id, taskKey, role, text },
      deadlineAt: deadlineAt.toISOString(),
    }),
  gateFinished: (run: GateRunRow, wave: WaveRow, jobKey: string | null) =>
    emit("agent/gate.finished", run.id, run.fence, { ...gateFacts(run, wave), jobKey }),
  taskCompleted: (task: TaskRow, wave: WaveRow, commit: string) =>
    emit("agent/task.completed", task.id, task.epoch, { ...taskFacts(task, wave), commit }),
  taskFailed: (task: TaskRow, wave: WaveRow, failure: { outcome: AttemptOutcome; reason: string }) =>
    emit("agent/task.failed", task.id, task.epoch, { ...taskFacts(task, wave), ...failure }),
  waveComplete: (wave: WaveRow) => emit("agent/wave.complete", wave.id, wave.epoch, { waveNumber: wave.number }),
  wavePassed: (wave: WaveRow, sha: string) =>
    emit("project/wave.passed", wave.id, wave.epoch, { waveNumber: wave.number, sha }),
  waveBlocked: (wave: WaveRow, reason: string) =>
    emit("project/wave.blocked", wave.id, wave.epoch, { waveNumber: wave.number, reason }),
  waveApproved: (wave: WaveRow, sha: string, by: string | null) =>
    emit("project/wave.approved", headOf(wave), wave.epoch, { waveNumber: wave.number, sha, ...madeBy(by) }),
  waveRejected: (wave: WaveRow, sha: string, { by, reason }: { by: string | null; reason: string }) =>
    emit("project/wave.rejected", headOf(wave), wave.epoch, { waveNumber: wave.number, sha, reason, ...madeBy(by) }),
  buildCompleted: (head: string) => emit("project/build.completed", build.id, build.epoch, { head }),
  buildEnded: (status: "failed" | "cancelled", reason: string) =>
    status === "failed"
      ? emit("project/build.failed", build.id, build.epoch, { reason })
      : emit("project/build.cancelled", build.id, build.epoch, {}),
  rolledBack: (waveNumber: number, sha: string) =>
    emit("project/build.rolled-back", build.id, build.epoch, { waveNumber, sha }),
  rollbackUndone: (sha: string | null) => emit("project/build.rollback-undone", build.id, build.epoch, { sha }),
});

const attemptFacts = ({ id, taskId, number, fence }: AttemptRow, wave: WaveRow, task: { key: string } | null) => ({
  waveNumber: wave.number,
  attemptId: id,
  taskId,
  taskKey: task?.key ?? null,
  attempt: number,
  fence,
});

const gateFacts = ({ id, gate, sha, fence }: GateRunRow, { number }: WaveRow) => ({
  waveNumber: number,
  gateRunId: id,
  gate,
  sha,
  fence,
});

const taskFacts = ({ id, key }: TaskRow, { number }: WaveRow) => ({ waveNumber: number, taskId: id, taskKey: key });
const madeBy = (by: string | null) => (by === null ? {} : { by });
/** A decision is about one head of a wave. */
const headOf = ({ id, headSha }: WaveRow): string => `${id}/${headSha}`;
