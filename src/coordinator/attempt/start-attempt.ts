import type { SandboxEndpoint } from "../../sandbox/port.ts";
import { startJob } from "../job/job-stages.ts";
import { handoverPath } from "../names.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { clearEarlier, sharedBase, sharesTree } from "../wave/shared-tree.ts";
import { type AttemptRefer, homeOf, homesOf, type LoadedAttempt, loadAttempt } from "./attempt.ts";
import { attemptStages } from "./attempt-stages.ts";
import { clearSurroundings, keepsJobsApart } from "./surroundings.ts";

/**
 * Takes an attempt that was asked for. False when it is not ours to start: settled, fenced off or
 * already running.
 */
export async function claimAttempt(
  ports: Ports,
  { attemptId, fence, buildId }: AttemptRefer & { readonly buildId: string },
): Promise<boolean> {
  return ports.store.transaction("claim-attempt", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (build.status !== "running") return false;
    const [claimed] = await transaction.attempts.update(
      { id: attemptId, buildId, fence, status: ["requested", "starting"] },
      { status: "starting" },
    );
    if (claimed === undefined) return false;
    if (claimed.taskId !== null) {
      await transaction.tasks.update({ id: claimed.taskId, status: "assigned" }, { status: "running" });
    }
    return true;
  });
}

/**
 * Opens the attempt's clean tree at its base; one that is there already is its own, and may have
 * its job at work in it, or what that has left (W8). One without either is made afresh once the
 * machine was started anew.
 */
async function openTree(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { attempt, build, wave }: LoadedAttempt,
): Promise<void> {
  const { treePath } = attempt;
  const sha = sharesTree(attempt) ? await sharedBase(ports, build, wave) : attempt.baseSha;
  const mayHoldWork = sharesTree(attempt) || (await ports.store.jobs.find({ key: attempt.jobKey })) !== null;
  const reuse = mayHoldWork || "since-boot";
  await ports.workspace.openTree({ projectId: build.projectId, guest, treePath, sha, reuse });
}

/**
 * Opens the attempt's tree and starts its job there: setup, services, the agent, its acceptance
 * checks. False when it was settled meanwhile.
 */
export async function startAttemptJob(ports: Ports, refer: AttemptRefer): Promise<boolean> {
  const loaded = await loadAttempt(ports, refer.attemptId);
  const { attempt, build } = loaded;
  if (attempt.fence !== refer.fence || attempt.status !== "starting") return attempt.status !== "settled";
  const endpoint = await ensureSandbox(ports, build);
  await openTree(ports, endpoint, loaded);
  if (sharesTree(attempt)) await clearEarlier(ports, endpoint, attempt);
  const [tree, { stages, setting }] = await Promise.all([
    endpoint.guest.stat(attempt.treePath),
    attemptStages(ports, endpoint, loaded),
  ]);
  // A volume that was lost since then took the tree along, and a job must not begin in an empty
  // folder.
  if (tree === null) await openTree(ports, endpoint, loaded);
  await readySurroundings(ports, endpoint, loaded);
  const isAtWork = await startJob(ports, endpoint, {
    key: attempt.jobKey,
    build,
    owner: { kind: "attempt", id: attempt.id, fence: attempt.fence },
    spec: {
      stages: [...setting.stages, ...stages],
      ...setting.reach,
      writable: [...setting.reach.writable, handoverPath(attempt.jobKey), ...homesOf(loaded)],
      ...(sharesTree(attempt) ? { shared: [attempt.treePath] } : {}),
      labels: { build: build.id, attempt: attempt.id },
    },
  });
  const [started] = await ports.store.attempts.update(
    { id: attempt.id, fence: refer.fence, status: "starting" },
    { status: "running", startedAt: ports.clock.now() },
  );
  if (started !== undefined || (isAtWork && !sharesTree(attempt))) return true;
  // Its job is over, or went with the tree that it shares, and nobody is told of that end: whoever
  // is settled closes what is left.
  return (await ports.store.attempts.get({ id: attempt.id })).status !== "settled";
}

/** Before an agent's job, and not once it is at work: then its home is its own. */
async function readySurroundings(ports: Ports, endpoint: SandboxEndpoint, loaded: LoadedAttempt): Promise<void> {
  const { attempt, build } = loaded;
  if (keepsJobsApart(build) || (await ports.store.jobs.find({ key: attempt.jobKey })) !== null) return;
  const isFirst = attempt.kind === "task" && attempt.number === 1;
  await clearSurroundings(ports, endpoint, { build, home: isFirst ? homeOf(loaded) : null });
}
