import type { QuestionEvent } from "../../agents/port.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import type { BuildRow, Input, JobRow, QuestionRow, StoreTransaction } from "../../store/port.ts";
import { answersPath } from "../names.ts";
import type { Ports } from "../port.ts";

// What an agent wants to do and may not, asked of a person while one is there.
//
// Q1. A question is a row once the output that asks it is stored; it is the agent's host that
// waits, not we, so it is still asked after whoever drove the build is gone.
// Q2. An answer counts once it is in the row; the file by which the host learns of it can be
// written any number of times.

/** A host says how long it waits; it is not believed beyond this. */
const longestWaitMs = 10 * 60_000;

/** Stores what new output of a job says of questions, in the transaction that stores the output. */
export async function recordQuestions(
  transaction: StoreTransaction,
  ports: Pick<Ports, "clock">,
  job: Input<Pick<JobRow, "key" | "buildId" | "ownerKind" | "ownerId">>,
  events: readonly QuestionEvent[],
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
    await transaction.questions.insertIfAbsent({
      buildId: job.buildId,
      jobKey: job.key,
      name,
      attemptId: attempt?.id ?? null,
      role: attempt?.role ?? run?.evidence?.added?.role ?? "critic",
      text,
      reason,
      options: [...options],
      askedAt: now,
      deadlineAt: new Date(now.getTime() + Math.min(Math.max(0, waitMs), longestWaitMs)),
    });
  }
}

/** Nobody waits for the answers to what an ended job asked. */
export async function closeQuestions(transaction: StoreTransaction, jobKey: string, now: Date): Promise<void> {
  await transaction.questions.update({ jobKey, closedAt: null }, { closedAt: now });
}

/** Those that are waited for, oldest first. */
async function openQuestions(
  { store, clock }: Pick<Ports, "store" | "clock">,
  buildId: string,
): Promise<QuestionRow[]> {
  const open = await store.questions.list({ buildId, closedAt: null, answer: null }, { by: "id" });
  return open.filter(({ deadlineAt }) => deadlineAt > clock.now());
}

export interface GivenAnswer {
  /** Its number; null: the only one that is open. */
  readonly number: number | null;
  readonly answer: "allow" | "deny";
  readonly by: string;
}

/**
 * Answers a question of a build. Fails with `not-found` and with `conflict` when it is not waited
 * for any more.
 */
export async function answerQuestion(ports: Ports, build: BuildRow, given: GivenAnswer): Promise<QuestionRow> {
  const id = await pick(ports, build, given);
  const { answer, by } = given;
  const waiting = { id, buildId: build.id, answer: null, closedAt: null };
  const patch = { answer, answeredBy: by, answeredAt: ports.clock.now() };
  const [answered] = await ports.store.questions.update(waiting, patch);
  if (answered === undefined) throw notWaiting(id, await ports.store.questions.find({ id, buildId: build.id }));
  await tellHost(ports, build, answered);
  return answered;
}

async function pick(ports: Ports, build: BuildRow, { number }: GivenAnswer): Promise<number> {
  const open = await openQuestions(ports, build.id);
  if (number !== null && open.some(({ id }) => id === number)) return number;
  if (number !== null) throw notWaiting(number, await ports.store.questions.find({ id: number, buildId: build.id }));
  if (open.length === 1) return open[0]!.id;
  const remedy = `wavesmith status ${build.id}`;
  if (open.length === 0) throw new WavesmithError("not-found", `build ${build.id} asks nothing now`, { remedy });
  const numbers = open.map((question) => question.id).join(", ");
  throw new WavesmithError("usage", `build ${build.id} asks more than one thing: say which of ${numbers}`, { remedy });
}

function notWaiting(id: number, row: QuestionRow | null): WavesmithError {
  if (row === null) return new WavesmithError("not-found", `this build has no question ${id}`);
  const why = row.answer === null ? "is not waited for any more" : `was answered by ${row.answeredBy}: ${row.answer}`;
  return new WavesmithError("conflict", `question ${id} ${why}`, { remedy: `wavesmith status ${row.buildId}` });
}

/**
 * At once, so that the agent need not wait for its job's watcher, which does it when this could
 * not.
 */
async function tellHost(ports: Ports, build: BuildRow, question: QuestionRow): Promise<void> {
  try {
    const endpoint = await ports.driver(build.sandboxDriver).find(build.projectId);
    if (endpoint !== null) await deliver(ports, endpoint.guest, question);
  } catch (error) {
    ports.log.warn(`the answer is in the database, and is brought to the agent a little later: ${messageOf(error)}`);
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

/** Brings answers to a job's host that whoever gave them could not bring. */
export async function deliverAnswers(ports: Ports, guest: GuestClient, jobKey: string): Promise<void> {
  const answer = ["allow", "deny"] as const;
  const waiting = await ports.store.questions.list({ jobKey, answer, deliveredAt: null, closedAt: null });
  for (const question of waiting) await deliver(ports, guest, question);
}
