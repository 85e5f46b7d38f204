import { WavesmithError } from "../../domain/errors.ts";
import { agentSpecFor } from "../../domain/plan/plan.ts";
import { endedBuildStatuses, type TaskStatus } from "../../domain/status.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import type { AttemptRow, BuildRow, MessageRow, StoreTransaction, TaskRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import { findNote, insertNote } from "../outside/origin-note.ts";
import type { Ports } from "../port.ts";

// Messages of people to the agents of tasks.
//
// TM1. A message belongs to one attempt, under a number in the stdin of its job, or else to the
// prompt of the task's next attempt. The row comes first; its delivery may be repeated, because the
// guest takes each number once.
// TM2. A message counts as delivered when the agent's host reports it. One that an attempt did not
// get before it ended becomes part of the next attempt's prompt.

const maxTextLength = 20_000;

export interface GivenMessage {
  readonly text: string;
  readonly by: string;
  /** Whether to interrupt the agent's turn. */
  readonly urgent: boolean;
  /** Identifies the message at its origin, so that a repetition is not sent again. */
  readonly origin?: string;
}

/** How a message reaches its agent: while it works, or with the prompt of the next attempt. */
export type MessageWay = "now" | "next-attempt";

export interface ToldTask {
  readonly message: MessageRow;
  readonly way: MessageWay;
}

/** The statuses of tasks that are not done yet, or may be done again. */
const tellable: ReadonlySet<TaskStatus> = new Set(["pending", "assigned", "running", "failed", "skipped", "cancelled"]);

/**
 * Stores a message to a task's agent, and delivers it at once if the agent works. Fails with
 * `not-found` for an unknown task, with `unsupported` for a script, and with `conflict` for a task
 * that is done.
 */
export async function tellTask(
  ports: Ports,
  buildId: string,
  taskKey: string,
  { text, by, urgent, origin }: GivenMessage,
): Promise<ToldTask> {
  const said = text.trim();
  if (said === "") throw new WavesmithError("usage", "the message is empty");
  if (said.length > maxTextLength)
    throw new WavesmithError("usage", `the message is longer than ${maxTextLength} characters`);
  const told = await ports.store.transaction("tell-task", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const task = await transaction.tasks.find({ buildId, key: taskKey });
    if (task === null) {
      const remedy = `wavesmith status ${buildId}`;
      throw new WavesmithError("not-found", `build ${buildId} has no task ${taskKey}`, { remedy });
    }
    const before = await findNote(transaction, origin);
    if (before !== null) {
      const message = await transaction.messages.get({ id: Number(before) });
      const attempt = message.attemptId === null ? null : await transaction.attempts.get({ id: message.attemptId });
      return { build, message, attempt };
    }
    refuseUntellable(build, task);
    const attempt = await workingAttempt(transaction, build, task);
    const earlier = attempt === null ? [] : await transaction.messages.list({ attemptId: attempt.id });
    const numbered = earlier.filter((one) => one.number !== null).length;
    const message = await transaction.messages.insert({
      ...{ buildId, taskId: task.id, text: said, by, urgent, createdAt: ports.clock.now() },
      ...(attempt === null ? {} : { attemptId: attempt.id, number: numbered + 1 }),
    });
    await eventsOf(transaction, build).taskTold(task, message);
    await insertNote(transaction, ports, build, { origin, event: "agent/task.told", answer: String(message.id) });
    return { build, message, attempt };
  });
  const { build, message, attempt } = told;
  if (attempt === null) return { message, way: "next-attempt" };
  await sendAtOnce(ports, build, attempt);
  return { message, way: "now" };
}

function refuseUntellable({ id, status: buildStatus }: BuildRow, { key, status, definition }: TaskRow): void {
  if (definition.run !== null) {
    throw new WavesmithError("unsupported", `task ${key} runs a script, which cannot read messages`, {
      remedy: `edit its script in the plan, then \`wavesmith resume ${id} --plan EDITED\``,
    });
  }
  if (tellable.has(status)) return;
  const why = endedBuildStatuses.includes(buildStatus)
    ? `build ${id} is ${buildStatus}, and its task ${key} is ${status}: no agent reads a message`
    : `task ${key} is ${status}: its agent has ended`;
  throw new WavesmithError("conflict", why, {
    remedy:
      buildStatus === "completed"
        ? "put it into the plan of the project's next build"
        : `comment on its work instead: \`wavesmith comment ${id} TEXT --file FILE --line LINE\``,
  });
}

/** The attempt whose agent takes messages while it works; null if there is none. */
async function workingAttempt(
  transaction: StoreTransaction,
  { plan }: BuildRow,
  { id: taskId, agent }: TaskRow,
): Promise<AttemptRow | null> {
  const runtime = agentSpecFor(plan, agent)?.runtime;
  if (runtime !== "acp" && runtime !== "builtin") return null;
  return transaction.attempts.find({ taskId, status: ["starting", "running"] });
}

async function sendAtOnce(ports: Ports, build: BuildRow, { id, jobKey }: AttemptRow): Promise<void> {
  try {
    const endpoint = await ports.driver(build.sandboxDriver).find(build.projectId);
    if (endpoint !== null) await send(ports, endpoint.guest, { attemptId: id, jobKey });
  } catch {
    // Its job may not run yet, or no longer: its watcher tries again, then the next attempt gets
    // it.
  }
}

async function send(
  ports: Pick<Ports, "store" | "clock">,
  guest: GuestClient,
  { attemptId, jobKey }: { attemptId: string; jobKey: string },
): Promise<void> {
  const unsent = await ports.store.messages.list({ attemptId, sentAt: null }, { by: "number" });
  for (const { id, number, text, by, urgent } of unsent) {
    if (number === null) continue;
    await guest.writeStdin(jobKey, number, `${JSON.stringify({ message: id, by, text, urgent })}\n`);
    await ports.store.messages.update({ id }, { sentAt: ports.clock.now() });
  }
}

/** Delivers the messages to an attempt's agent that could not be delivered at once. */
export async function sendMessages(ports: Ports, guest: GuestClient, jobKey: string, attemptId: string): Promise<void> {
  try {
    await send(ports, guest, { attemptId, jobKey });
  } catch (error) {
    // A job that has ended takes no input; the next attempt gets the messages.
    if (!(error instanceof WavesmithError)) throw error;
  }
}

/** Records the deliveries that an attempt's agent host reports. */
export async function recordDelivered(
  transaction: StoreTransaction,
  ports: Pick<Ports, "clock">,
  attemptId: string,
  ids: readonly number[],
): Promise<void> {
  if (ids.length === 0) return;
  await transaction.messages.update({ id: ids, attemptId, deliveredAt: null }, { deliveredAt: ports.clock.now() });
}

/** Makes the task's undelivered messages part of the prompt of an attempt that starts. */
export async function takeMessages(
  transaction: StoreTransaction,
  ports: Pick<Ports, "clock">,
  { id: attemptId, taskId }: Pick<AttemptRow, "id" | "taskId">,
): Promise<void> {
  if (taskId === null) return;
  const undelivered = await transaction.messages.list({ taskId, deliveredAt: null });
  const waiting = undelivered.filter((message) => message.attemptId !== attemptId);
  if (waiting.length === 0) return;
  const now = ports.clock.now();
  await transaction.messages.update(
    { id: waiting.map(({ id }) => id) },
    { attemptId, number: null, sentAt: now, deliveredAt: now },
  );
}

/** Lists the messages that an attempt's prompt repeats: all that people sent before it started. */
export async function messagesBefore(
  { store }: Pick<Ports, "store">,
  { id: attemptId, taskId }: Pick<AttemptRow, "id" | "taskId">,
): Promise<MessageRow[]> {
  if (taskId === null) return [];
  const all = await store.messages.list({ taskId }, { by: "id" });
  return all.filter((message) => message.attemptId !== attemptId || message.number === null);
}
