import { hasFixer, type Plan } from "../../domain/plan/plan.ts";
import { liveWaveStatuses } from "../../domain/status.ts";
import type { BuildRow, CommentRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { activeBuildOf } from "../../store/queries/builds.ts";
import { deadlineFrom } from "../build/deadline.ts";
import { eventsOf } from "../build-events.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { fixRoundsOf, fixTask } from "./fix-task.ts";

// FX1. A finding from outside becomes a comment for the fixer of the current wave. A wave that has
// passed stays passed: the build gets one more task, at most `gates.maxFixRounds` in all.

export type OutsideFinding = Pick<CommentRow, "sha" | "file" | "line" | "text" | "by" | "log"> & {
  /** A finding with the same origin is given once. */
  readonly origin: string;
};

export interface Giving {
  readonly transaction: StoreTransaction;
  readonly ports: Ports;
  /** It is locked, and so is its project. */
  readonly build: BuildRow;
  readonly finding: OutsideFinding;
}

/** Gives a finding to the build's fixer. Returns what was done, in words. */
export async function giveToFixer(giving: Giving): Promise<string> {
  const { transaction, build } = giving;
  if (build.status === "cancelling" || build.status === "cancelled") return "the build was cancelled";
  if (build.status === "queued") return "the build has not started";
  const live = await transaction.waves.find({ buildId: build.id, status: liveWaveStatuses });
  if (live !== null) return commentOn(giving, live);
  if (build.status === "failed") {
    await addFinding(giving, build, null);
    return "the build has failed: `retry` gives the finding to the fixer";
  }
  return addFixTask(giving);
}

/**
 * Stores a finding for the wave's next fix or, if `wave` is null, for the first fix of the next
 * wave.
 */
export async function addFinding(
  { transaction, ports, finding }: Giving,
  build: BuildRow,
  wave: WaveRow | null,
): Promise<void> {
  const row = await transaction.comments.insertIfAbsent({
    ...{ ...finding, buildId: build.id, waveId: wave?.id ?? null, taskId: null, endLine: null },
    ...{ state: "open" as const, createdAt: ports.clock.now() },
  });
  if (row !== null) await eventsOf(transaction, build).commented(row, null);
}

/**
 * Gives the finding to the wave's next fix. If the wave is waiting for a person, the fix starts
 * now.
 */
async function commentOn(giving: Giving, wave: WaveRow): Promise<string> {
  const { transaction, ports, build } = giving;
  await addFinding(giving, build, wave);
  if (wave.status === "waiting" && hasFixer(build.plan) && wave.fixRounds < build.plan.gates.maxFixRounds) {
    await transaction.waves.update({ id: wave.id }, { status: "gating" });
    await transaction.builds.update({ id: build.id }, { status: "running" });
    await advance(transaction, ports, build.id);
  }
  return `it goes to the fixer of wave ${wave.number}`;
}

/** Adds a task for the fixer to a build that has no current wave (FX1). */
async function addFixTask(giving: Giving): Promise<string> {
  const { transaction, ports, build, finding } = giving;
  const { plan, projectId } = build;
  if (!hasFixer(plan)) return "no fixer is declared, so a person has to fix it";
  const other = await activeBuildOf(transaction, projectId);
  if (other !== null && other.id !== build.id) {
    await addFinding(giving, other, await transaction.waves.find({ buildId: other.id, status: liveWaveStatuses }));
    return `build ${other.id} of the project works on top of it, and its fixer gets the finding`;
  }
  const newest = await transaction.builds.find(
    { projectId, status: "completed" },
    { by: "position", descending: true },
  );
  if (newest !== null && newest.position > build.position)
    return `build ${newest.id} has moved main on since: a fix of this one would undo it, so a person has to look at it`;
  const round = fixRoundsOf(plan) + 1;
  const most = plan.gates.maxFixRounds;
  if (round > most) return `the fixer has used up its rounds (${most}): a person has to fix it`;
  const definition = fixTask(plan, finding, round);
  const { key, position, agent } = definition;
  await transaction.tasks.insert({
    ...{ id: ports.ids("task"), buildId: build.id, key, position, agent, definition, status: "pending" },
  });
  await goOn(giving, { ...plan, tasks: [...plan.tasks, definition] });
  return `it goes to the fixer as task ${key} (round ${round} of ${most})`;
}

async function goOn({ transaction, ports, build }: Giving, plan: Plan): Promise<void> {
  const again =
    build.status === "completed"
      ? {
          ...({ status: "running", reason: null, endedAt: null, epoch: build.epoch + 1 } as const),
          deadlineAt: deadlineFrom(plan, ports.clock.now()),
        }
      : {};
  await transaction.builds.update({ id: build.id }, { plan, planVersion: build.planVersion + 1, ...again });
  await advance(transaction, ports, build.id);
}
