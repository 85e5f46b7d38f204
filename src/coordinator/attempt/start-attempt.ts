import { handoverPath } from "../../domain/sandbox/volume-paths.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import { clearSurroundings, keepsJobsApart } from "../guarded-files/surroundings.ts";
import { startJob } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { giveComments } from "../wave/comments.ts";
import { clearEarlier, sharedBase, sharesTree } from "../wave/shared-tree.ts";
import { type AttemptRef, homeOf, homesOf, type LoadedAttempt, loadAttempt } from "./attempt.ts";
import { attemptStages } from "./attempt-stages.ts";
import { takeMessages } from "./messages.ts";

/** Claims a requested attempt. Returns false if it is settled, fenced off or already running. */
export async function claimAttempt(
  ports: Ports,
  { attemptId, fence, buildId }: AttemptRef & { readonly buildId: string },
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
      await takeMessages(transaction, ports, claimed);
      await giveComments(transaction, claimed);
    }
    return true;
  });
}

/**
 * Opens the attempt's clean tree at its base. An existing tree belongs to the same attempt and may
 * hold its running job or its work (W8), so it stays, unless it has neither and the machine was
 * rebooted.
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
 * Opens the attempt's tree and starts its job: setup, services, the agent, its acceptance checks.
 * Returns false if the attempt was settled meanwhile.
 */
export async function startAttemptJob(ports: Ports, attemptRef: AttemptRef): Promise<boolean> {
  const loaded = await loadAttempt(ports, attemptRef.attemptId);
  const { attempt, build } = loaded;
  if (attempt.fence !== attemptRef.fence || attempt.status !== "starting") return attempt.status !== "settled";
  const endpoint = await ensureSandbox(ports, build);
  await openTree(ports, endpoint, loaded);
  if (sharesTree(attempt)) await clearEarlier(ports, endpoint, attempt);
  const [tree, { stages, setting }] = await Promise.all([
    endpoint.guest.stat(attempt.treePath),
    attemptStages(ports, endpoint, loaded),
  ]);
  // Open the tree again if the volume was lost, because a job must not start in an empty folder.
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
    { id: attempt.id, fence: attemptRef.fence, status: "starting" },
    { status: "running", startedAt: ports.clock.now() },
  );
  if (started !== undefined || (isAtWork && !sharesTree(attempt))) return true;
  // Its job has ended, perhaps with its shared tree, and nothing reports that end. If the attempt
  // is settled, the caller cleans up.
  return (await ports.store.attempts.get({ id: attempt.id })).status !== "settled";
}

/** Clears the surroundings before an agent's job; once it runs, it may use its home. */
async function readySurroundings(ports: Ports, endpoint: SandboxEndpoint, loaded: LoadedAttempt): Promise<void> {
  const { attempt, build } = loaded;
  if (keepsJobsApart(ports, build) || (await ports.store.jobs.find({ key: attempt.jobKey })) !== null) return;
  const isFirst = attempt.kind === "task" && attempt.number === 1;
  await clearSurroundings(ports, endpoint, { build, home: isFirst ? homeOf(loaded) : null });
}
