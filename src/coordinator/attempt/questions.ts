import type { QuestionEvent } from "../../agents/port.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import { answersPath } from "../../domain/sandbox/volume-paths.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import type { BuildRow, Input, JobRow, QuestionRow, StoreTransaction } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

// Agents' questions: an action that the policy does not allow is put to a person.
//
// QU1. A question becomes a row when the output that asks it is stored. The agent's host waits for
// the answer, so a question survives the process that drives the build.
// QU2. An answer counts once it is in the row. The file that tells the host can be written any
// number of times.

/** The longest wait that we accept from a host. */
const maxWaitMs = 10 * 60_000;

type QuestioningJob = Input<Pick<JobRow, "key" | "buildId" | "ownerKind" | "ownerId">>;

/** Stores the questions in a job's new output, in the transaction that stores the output. */
export async function recordQuestions(
  transaction: StoreTransaction,
  ports: Pick<Ports, "clock">,
  build: BuildRow,
  { job, events }: { readonly job: QuestioningJob; readonly events: readonly QuestionEvent[] },
): Promise<void> {
  const now = ports.clock.now();
  for (const event of events) {
    if (event.kind === "closed") {
      await transaction.questions.update({ jobKey: job.key, name: event.name, closedAt: null }, { closedAt: now });
      continue;
    }
    const attempt = job.ownerKind === "attempt" ? await transaction.attempts.get({ id: job.ownerId }) : null;
    const run = attempt === null ? await transaction.gateRuns.find({ id: job.ownerId }) : null;
    const { name, text, reason, options, waitMs } = event;
    const question = await transaction.questions.insertIfAbsent({
      buildId: job.buildId,
      jobKey: job.key,
      name,
      attemptId: attempt?.id ?? null,
      role: attempt?.role ?? run?.evidence?.added?.role ?? "critic",
      text,
      reason,
      options: [...options],
      askedAt: now,
      deadlineAt: new Date(now.getTime() + Math.min(Math.max(0, waitMs), maxWaitMs)),
    });
    if (question === null) continue;
    const task = attempt?.taskId == null ? null : await transaction.tasks.get({ id: attempt.taskId });
    await eventsOf(transaction, build).questionAsked(question, task?.key ?? null);
  }
}

/** Closes the questions of an ended job, because nobody waits for their answers. */
export async function closeQuestions(transaction: StoreTransaction, jobKey: string, now: Date): Promise<void> {
  await transaction.questions.update({ jobKey, closedAt: null }, { closedAt: now });
}

/** Lists the open questions, oldest first. */
async function openQuestions(
  { store, clock }: Pick<Ports, "store" | "clock">,
  buildId: string,
): Promise<QuestionRow[]> {
  const open = await store.questions.list({ buildId, closedAt: null, answer: null }, { by: "id" });
  return open.filter(({ deadlineAt }) => deadlineAt > clock.now());
}

export interface GivenAnswer {
  /** The question's number; null if it is the only open one. */
  readonly number: number | null;
  readonly answer: "allow" | "deny";
  readonly by: string;
}

/** Answers a build's question. Fails with `not-found`, or with `conflict` if it is closed. */
export async function answerQuestion(ports: Ports, build: BuildRow, given: GivenAnswer): Promise<QuestionRow> {
  const id = await pick(ports, build, given);
  const { answer, by } = given;
  const waiting = { id, buildId: build.id, answer: null, closedAt: null };
  const patch = { answer, answeredBy: by, answeredAt: ports.clock.now() };
  const [answered] = await ports.store.questions.update(waiting, patch);
  if (answered === undefined) throw notWaiting(id, await ports.store.questions.find({ id, buildId: build.id }));
  await deliverAnswer(ports, build, answered);
  return answered;
}

async function pick(ports: Ports, build: BuildRow, { number }: GivenAnswer): Promise<number> {
  const open = await openQuestions(ports, build.id);
  if (number !== null && open.some(({ id }) => id === number)) return number;
  if (number !== null) throw notWaiting(number, await ports.store.questions.find({ id: number, buildId: build.id }));
  if (open.length === 1) return itemAt(open, 0).id;
  const remedy = `wavesmith status ${build.id}`;
  if (open.length === 0) throw new WavesmithError("not-found", `build ${build.id} has no open question`, { remedy });
  const numbers = open.map((question) => question.id).join(", ");
  throw new WavesmithError("usage", `build ${build.id} has several open questions: name one of ${numbers}`, { remedy });
}

function notWaiting(id: number, row: QuestionRow | null): WavesmithError {
  if (row === null) return new WavesmithError("not-found", `this build has no question ${id}`);
  const why = row.answer === null ? "is closed" : `was answered by ${row.answeredBy}: ${row.answer}`;
  return new WavesmithError("conflict", `question ${id} ${why}`, { remedy: `wavesmith status ${row.buildId}` });
}

/** Delivers an answer at once. If that fails, the job's watcher does it later. */
async function deliverAnswer(ports: Ports, build: BuildRow, question: QuestionRow): Promise<void> {
  try {
    const endpoint = await ports.driver(build.sandboxDriver).find(build.projectId);
    if (endpoint !== null) await deliver(ports, endpoint.guest, question);
  } catch (error) {
    ports.log.warn(
      `the answer is stored but has not reached the agent yet; delivery will be retried: ${messageOf(error)}`,
    );
  }
}

async function deliver(
  ports: Pick<Ports, "store" | "clock">,
  guest: GuestClient,
  question: QuestionRow,
): Promise<void> {
  const { id, jobKey, name, answer, answeredBy: by } = question;
  await guest.writeFile(`${answersPath(jobKey)}/${name}.json`, JSON.stringify({ answer, by }));
  await ports.store.questions.update({ id }, { deliveredAt: ports.clock.now() });
}

/** Delivers answers to a job's host that could not be delivered before. */
export async function deliverAnswers(ports: Ports, guest: GuestClient, jobKey: string): Promise<void> {
  const answer = ["allow", "deny"] as const;
  const waiting = await ports.store.questions.list({ jobKey, answer, deliveredAt: null, closedAt: null });
  for (const question of waiting) await deliver(ports, guest, question);
}
