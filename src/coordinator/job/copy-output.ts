import type { QuestionEvent } from "../../agents/port.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Activity } from "../../domain/events/activity.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import type { BuildRow, JobLease } from "../../store/port.ts";
import { recordDelivered } from "../attempt/messages.ts";
import { recordQuestions } from "../attempt/questions.ts";
import { createCut, createMask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";
import { reportActivities, reportable } from "./activities.ts";

const readBytes = 256 * 1024;
/** Far above what all stages of a job may print. */
const maxOutputBytes = 2 ** 30;

interface OutputCopier {
  /** Copies the available output, but holds back a tail that may be half a secret. */
  copy(ended: boolean): Promise<void>;
  /** Whether the copied output contains a question. */
  asked(): boolean;
  /** The offset up to which it has read, including held-back output. */
  seen(): number;
  /** The offset up to which the database has the output. */
  copied(): number;
}

interface OutputCopierParts {
  readonly ports: Ports;
  readonly build: BuildRow;
  readonly guest: GuestClient;
  readonly secrets: Readonly<Record<string, string>>;
}

/** Copies the output of a leased job to the database, each part once. */
export function createOutputCopier(
  { ports, build, guest, secrets }: OutputCopierParts,
  { job, fence }: JobLease,
): OutputCopier {
  const { key } = job;
  const mask = createMask(secrets);
  const cut = createCut(secrets, readBytes);
  let offset = job.outputOffset;
  let reported = job.activities;
  let asked = false;
  let seen = offset;
  return {
    seen: () => seen,
    asked: () => asked,
    copied: () => offset,
    async copy(ended) {
      for (;;) {
        if (offset > maxOutputBytes)
          throw new WavesmithError("guest-protocol", `the guest sends more output of ${key} than a job may have`);
        const chunk = await guest.readOutput(key, { offset, limitBytes: readBytes }).catch((error: unknown) => {
          if (ended) return null; // a lost volume took the output with it
          throw error;
        });
        if (chunk === null || chunk.data.length === 0) return;
        seen = offset + chunk.data.length;
        const whole = ended && chunk.data.length < readBytes;
        const data = whole ? chunk.data : cut(chunk.data);
        if (data.length === 0) return;
        const text = mask(data.toString("utf8"));
        const questions = ports.agents.questionsIn(text);
        asked ||= questions.length > 0;
        const action = ports.agents.lastActionIn(text);
        const activities = reportable(ports.agents.activitiesIn(text), reported);
        const told = ports.agents.toldIn(text);
        const news = { questions, action, activities, reported, told };
        await storeChunk(ports, build, { job, fence }, { startsAt: offset, text, bytes: data.length, ...news });
        reported += activities.length;
        offset += data.length;
        if (chunk.data.length < readBytes) return; // no more output for now
      }
    },
  };
}

interface OutputChunk {
  readonly startsAt: number;
  readonly text: string;
  readonly bytes: number;
  readonly questions: readonly QuestionEvent[];
  readonly action: string | null;
  readonly activities: readonly Activity[];
  /** How many activities the job has reported before. */
  readonly reported: number;
  /** The messages of people that the agent got. */
  readonly told: readonly number[];
}

async function storeChunk(ports: Ports, build: BuildRow, { job, fence }: JobLease, chunk: OutputChunk): Promise<void> {
  const { startsAt, text, bytes, questions, action, activities, reported, told } = chunk;
  const { key } = job;
  const progress = { outputOffset: startsAt + bytes, activities: reported + activities.length };
  await ports.store.transaction("store-output", async (transaction) => {
    const [held] = await transaction.jobs.update(
      { key, fence, outputOffset: startsAt },
      { ...progress, ...(action === null ? {} : { lastAction: action }) },
    );
    if (held === undefined) return; // another watcher has taken over
    await transaction.logChunks.insertIfAbsent({ jobKey: key, startsAt, text, at: ports.clock.now() });
    await recordQuestions(transaction, ports, build, { job, events: questions });
    await reportActivities(transaction, build, job, { activities, reported });
    if (job.ownerKind === "attempt") await recordDelivered(transaction, ports, job.ownerId, told);
  });
}
