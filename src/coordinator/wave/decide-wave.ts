import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { eventsOf } from "../build-events.ts";
import { advance } from "../next/advance.ts";
import { findNote, insertNote } from "../outside/origin-note.ts";
import type { Ports } from "../port.ts";
import { personsHead } from "./wave-head.ts";

// Records a person's decision about a wave, after its gates and before it passes. A decision is a
// row about one head.

export interface PersonDecision {
  readonly by: string | null;
  /**
   * The wave and head an event is about; an event about another one came too late and changes
   * nothing.
   */
  readonly about?: { readonly waveNumber: number; readonly sha: string | null };
  /** Identifies the comment it came from, so that a repetition decides nothing (OG1). */
  readonly origin?: string;
}

/**
 * Lets the waiting wave pass. Commits that a person pushed to its branch become its head and are
 * part of what is approved: they go through the gates first. Approving again changes nothing.
 * Returns their last one; null without such commits. Fails with `conflict` when nothing waits, or
 * when the branch does not descend from the wave's head.
 */
export async function approveWave(ports: Ports, buildId: string, decision: PersonDecision): Promise<string | null> {
  const { by, about } = decision;
  const head = await waitingHead(ports, buildId);
  let pushed: string | null = null;
  await decide(ports, buildId, { ...decision, is: "approved" }, async (transaction, build, waiting) => {
    if (head !== waiting.headSha) pushed = head;
    const wave = pushed === null ? waiting : { ...waiting, headSha: pushed, epoch: waiting.epoch + 1, fixRounds: 0 };
    // A decision about one commit does not cover what was pushed on top of it.
    const approved = { ...wave, headSha: about?.sha ?? wave.headSha };
    const { headSha, epoch, fixRounds } = wave;
    await transaction.approvals.insert({ ...row(ports, approved), decision: "approved", by });
    await transaction.waves.update(
      { id: wave.id },
      { status: "gating", headSha, epoch, fixRounds, approvedSha: approved.headSha },
    );
    await transaction.builds.update({ id: buildId }, { status: "running" });
    await eventsOf(transaction, build).waveApproved(approved, present(approved.headSha, "approved.headSha"), by);
  });
  return pushed;
}

/** The head of the wave that waits, with what a person pushed on top of it; null if none waits. */
async function waitingHead(ports: Ports, buildId: string): Promise<string | null> {
  const build = await ports.store.builds.get({ id: buildId });
  const wave = await ports.store.waves.find({ buildId }, { by: "number", descending: true });
  if (build.status !== "waiting" || wave?.status !== "waiting") return null;
  return personsHead(ports, build, wave);
}

/** Rejects the waiting wave; a retry gives `reason` to the fixer. Repeating it changes nothing. */
export async function rejectWave(
  ports: Ports,
  buildId: string,
  decision: PersonDecision & { reason: string },
): Promise<void> {
  const { by, reason } = decision;
  await decide(ports, buildId, { ...decision, is: "rejected" }, async (transaction, build, wave) => {
    await transaction.approvals.insert({ ...row(ports, wave), decision: "rejected", by, reason });
    await transaction.waves.update(
      { id: wave.id },
      { status: "blocked", rejectedSha: wave.headSha, reason: `rejected: ${reason}`, endedAt: ports.clock.now() },
    );
    await transaction.builds.update({ id: buildId }, { status: "running" });
    await eventsOf(transaction, build).waveRejected(wave, present(wave.headSha, "wave.headSha"), { by, reason });
  });
}

const row = (ports: Ports, wave: WaveRow) => ({
  id: ports.ids("approval"),
  buildId: wave.buildId,
  waveId: wave.id,
  sha: present(wave.headSha, "wave.headSha"),
  createdAt: ports.clock.now(),
});

const isAbout = (wave: WaveRow | null, about: NonNullable<PersonDecision["about"]>): boolean =>
  wave !== null && wave.number === about.waveNumber && (about.sha === null || about.sha === wave.headSha);

async function decide(
  ports: Ports,
  buildId: string,
  decision: PersonDecision & { is: "approved" | "rejected" },
  write: (transaction: StoreTransaction, build: BuildRow, wave: WaveRow) => Promise<void>,
): Promise<void> {
  await ports.store.transaction(`wave-${decision.is}`, async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await latestWaveOf(transaction, buildId);
    const { is: answer, about, origin } = decision;
    if ((await findNote(transaction, origin)) !== null) return;
    if (about !== undefined && !isAbout(wave, about)) return;
    if (wave?.status === "waiting" && build.status === "waiting") {
      await write(transaction, build, wave);
      await insertNote(transaction, ports, build, { origin, event: `project/wave.${answer}`, answer });
      await advance(transaction, ports, buildId);
      return;
    }
    const decidedSha = decision.is === "approved" ? wave?.approvedSha : wave?.rejectedSha;
    if (wave !== null && wave.headSha !== null && decidedSha === wave.headSha) return;
    throw await undecidable(transaction, build);
  });
}

/** The error for a decision that no wave waits for; it names the build ahead if that one waits. */
async function undecidable(
  transaction: StoreTransaction,
  { id, projectId, status }: BuildRow,
): Promise<WavesmithError> {
  const fails = (message: string, remedy: string) =>
    new WavesmithError("conflict", `build ${id} is ${message}`, { remedy });
  if (status === "waiting") return fails("waiting to be resumed, not for a decision", `wavesmith resume ${id}`);
  const ahead = status === "queued" ? await transaction.builds.find({ projectId, status: "waiting" }) : null;
  if (ahead === null) return fails(`${status}: no wave of it is waiting for a decision`, `wavesmith status ${id}`);
  return fails(
    `queued: build ${ahead.id} of its project comes first, and is waiting`,
    `name that build; wavesmith status ${ahead.id} says what it is waiting for`,
  );
}
