import { WavesmithError } from "../../domain/errors.ts";
import { itemAt, present } from "../../domain/known.ts";
import { planTaskKey } from "../../domain/plan/brief.ts";
import { hasFixer } from "../../domain/plan/plan.ts";
import { shellWord } from "../../domain/shell-word.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { eventsOf } from "../build-events.ts";
import { retryPullRequests } from "../forge/pull-request.ts";
import { previewIsDue } from "../gate/gate-due.ts";
import { advance } from "../next/advance.ts";
import { findNote, insertNote, retriedNote } from "../outside/origin-note.ts";
import { isOther, type OtherAgent, withOtherAgent } from "../plan/other-agent.ts";
import { refuseWithoutModels } from "../plan/plan-models.ts";
import type { Ports } from "../port.ts";
import { reopenTasks, reopenWave } from "../wave/reopening.ts";
import { personsHead } from "../wave/wave-head.ts";
import { deadlineFrom } from "./deadline.ts";

// `retry` reopens a blocked or cancelled wave, or puts failed tasks into the next one. Epochs are
// raised, because a repeated event id would be dropped (W13).

interface Retry extends OtherAgent {
  readonly unchanged?: boolean;
  readonly interactive?: boolean | undefined;
  readonly origin?: string;
}

/**
 * Makes an ended build run again; new attempts for what failed. Delivers again what a forge
 * refused. Fails with `conflict` when there is nothing to do again, or when it could only offer a
 * rejected tree again: `unchanged` does that. `model` and `agent` replace those of the plan from
 * now on, and `interactive` says whether a person answers its agents' questions. A repetition with
 * the same `origin` changes nothing (OG1).
 */
export async function retryBuild(
  ports: Ports,
  buildId: string,
  { unchanged = false, interactive, origin, ...replacement }: Retry = {},
): Promise<void> {
  if ((await findNote(ports.store, origin)) !== null) return;
  const build = await ports.store.builds.get({ id: buildId });
  const plan = withOtherAgent(build.plan, replacement);
  if (isOther(replacement)) refuseWithoutModels(ports.models, plan);
  if (build.status === "completed") {
    if ((await retryPullRequests(ports, buildId, { origin })) > 0) return;
    throw new WavesmithError("conflict", `build ${buildId} is completed: there is nothing to retry`);
  }
  if (build.status !== "failed" && build.status !== "cancelled") {
    if ((await retryPullRequests(ports, buildId, { origin, status: ["blocked", "closed"] })) > 0) return;
    throw new WavesmithError("conflict", `build ${buildId} is ${build.status}: it has not ended yet`, {
      remedy: `wavesmith resume ${buildId}`,
    });
  }
  const wave = await latestWaveOf(ports.store, buildId);
  const head = wave === null ? null : await personsHead(ports, build, wave);
  if (wave !== null && !unchanged && (await isOfferedAgain(ports, build, { wave, head }))) {
    throw nothingNew(ports, build, wave);
  }
  await ports.store.transaction("retry-build", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    if (present.status !== build.status) return;
    const other = await transaction.builds.find({
      projectId: build.projectId,
      status: activeBuildStatuses,
    });
    if (other !== null) throw busy(buildId, other.id);
    const updated = await transaction.builds.update(
      { id: buildId },
      {
        status: "running",
        reason: null,
        endedAt: null,
        epoch: present.epoch + 1,
        deadlineAt: deadlineFrom(build.plan, ports.clock.now()),
        ...(interactive === undefined ? {} : { interactive }),
        ...(isOther(replacement) ? { plan, planVersion: present.planVersion + 1 } : {}),
      },
    );
    if (replacement.model !== undefined) await forgetModels(transaction, buildId);
    await reopenTasks(transaction, buildId);
    if (wave !== null) await reopenWave(transaction, ports, itemAt(updated, 0), wave, head);
    if (wave !== null) await askPreview(transaction, itemAt(updated, 0), wave);
    await insertNote(transaction, ports, present, { origin, ...retriedNote });
    await advance(transaction, ports, buildId);
  });
}

/** Drops the models that single tasks name. */
async function forgetModels(transaction: StoreTransaction, buildId: string): Promise<void> {
  for (const { id, definition } of await transaction.tasks.list({ buildId })) {
    if (definition.model !== null)
      await transaction.tasks.update({ id }, { definition: { ...definition, model: null } });
  }
}

/** Requests the preview of a wave that was delivered during a cancel, which started no preview. */
async function askPreview(transaction: StoreTransaction, build: BuildRow, wave: WaveRow): Promise<void> {
  if (wave.status !== "passed" || wave.deliveredAt === null) return;
  if (!previewIsDue(build, await tasksOfBuild(transaction, build.id))) return;
  const shown = await transaction.previews.find({ buildId: build.id });
  if (shown !== null && shown.waveNumber >= wave.number) return;
  const preview = { waveNumber: wave.number, sha: present(wave.headSha, "wave.headSha") };
  await eventsOf(transaction, build).deployPreview(preview, `${build.id}/${wave.number}`, build.epoch);
}

/** Whether a person rejected exactly this tree and there is no fixer to change it. */
async function isOfferedAgain(
  { store }: Ports,
  build: BuildRow,
  { wave, head }: { wave: WaveRow; head: string | null },
): Promise<boolean> {
  const { plan, id: buildId } = build;
  if (wave.status !== "blocked" || wave.rejectedSha === null || wave.rejectedSha !== head) return false;
  if (hasFixer(plan)) return false;
  // A rejected plan is made again, by the planner.
  return build.brief === null || (await store.tasks.find({ buildId, waveId: wave.id, key: planTaskKey })) === null;
}

function nothingNew(ports: Ports, build: BuildRow, wave: WaveRow): WavesmithError {
  const branch = `wavesmith/${build.id}/wave-${wave.number}`;
  const repository = shellWord(ports.workspace.repositoryPath(build.projectId));
  return new WavesmithError(
    "conflict",
    `wave ${wave.number} of build ${build.id} was ${wave.reason}; no fixer is there to change it, so a retry would offer you the same tree`,
    {
      remedy: `fix it on its branch (git fetch ${repository} ${branch}, commit, git push ${repository} HEAD:${branch}), then: wavesmith retry ${build.id}. Or add agents.fixer to the plan: wavesmith resume ${build.id} --plan EDITED. To review the same tree again: wavesmith retry ${build.id} --unchanged`,
    },
  );
}

const busy = (buildId: string, other: string): WavesmithError =>
  new WavesmithError("conflict", `build ${buildId} cannot run: build ${other} of the same project has not ended`, {
    remedy: `wavesmith resume ${other}, or: wavesmith cancel ${other}`,
  });
