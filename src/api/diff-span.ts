import { WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { present } from "../domain/known.ts";
import type { Store } from "../store/port.ts";

/** The two commits between which something changed. */
export interface DiffSpan {
  readonly projectId: ProjectId;
  readonly from: string;
  readonly to: string;
}

/** The largest diff that is shown. */
export const maxDiffBytes = 64 * 1024 * 1024;

/** Finds what a build, one of its tasks or one of its waves changed. Fails with `not-found`. */
export async function diffSpan(
  store: Store,
  buildId: string,
  { task, wave }: { readonly task?: string | undefined; readonly wave?: number | undefined },
): Promise<DiffSpan> {
  const remedy = `see what exists: wavesmith status ${buildId}`;
  const nothing = (message: string) => new WavesmithError("not-found", message, { remedy });
  const { projectId, baseSha, headSha } = await store.builds.get({ id: buildId });
  if (task !== undefined) {
    const row = await store.tasks.find({ buildId, key: task });
    if (row === null) throw nothing(`build ${buildId} has no task ${task}`);
    const attempts = await store.attempts.list({ taskId: row.id }, { by: "number" });
    const kept = attempts.findLast((attempt) => attempt.commitSha !== null);
    if (kept === undefined) throw nothing(`task ${task} has changed nothing yet`);
    return { projectId, from: kept.baseSha, to: present(kept.commitSha, "kept.commitSha") };
  }
  if (wave !== undefined) {
    const row = await store.waves.find({ buildId, number: wave });
    if (row?.headSha == null) throw nothing(`build ${buildId} has no joined wave ${wave}`);
    return { projectId, from: row.baseSha, to: row.headSha };
  }
  if (baseSha === null || headSha === null) throw nothing(`build ${buildId} has changed nothing yet`);
  if (baseSha === headSha) await refuseUnpassed(store, buildId);
  return { projectId, from: baseSha, to: headSha };
}

/** Where no wave has passed, points at the joined one instead of showing an empty diff. */
async function refuseUnpassed(store: Store, buildId: string): Promise<void> {
  const waves = await store.waves.list({ buildId }, { by: "number", descending: true });
  const joined = waves.find(({ headSha }) => headSha !== null);
  if (joined === undefined || waves.some(({ status }) => status === "passed")) return;
  throw new WavesmithError("not-found", `no wave of build ${buildId} has passed yet`, {
    remedy: `wave ${joined.number} is ${joined.status}; see its changes: wavesmith diff ${buildId} --wave ${joined.number}`,
  });
}
