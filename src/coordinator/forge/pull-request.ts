import { type PullRequestStatus, requestBranch } from "../../domain/forge.ts";
import { derivedId } from "../../domain/ids.ts";
import type { BuildRow, PullRequestRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import { insertNote, retriedNote } from "../outside/origin-note.ts";
import type { Ports } from "../port.ts";
import { usesForges } from "./may-deliver.ts";

// PR1. A request's row is written with the wave's delivery, in one transaction. Every later step
// reads only that row, so that a crash loses no delivery.

/** How long a delivery may take before we request it again. */
const patienceMs = 5 * 60_000;

interface Asking extends Pick<Ports, "clock"> {
  readonly transaction: StoreTransaction;
}

/** Records what a delivered wave changes at the plan's forge, and requests that delivery. */
export async function recordPullRequest(
  { transaction, clock }: Asking,
  build: BuildRow,
  { number: waveNumber, headSha }: WaveRow,
): Promise<void> {
  const { forge, repo, base, pullRequests = "build" } = build.plan.deliver;
  if (repo === null || headSha === null || headSha === build.baseSha || !usesForges(build.tenantId)) return;
  const key = pullRequests === "build" ? "build" : `wave-${waveNumber}`;
  const id = derivedId("pull-request", build.id, key);
  const place = { projectId: build.projectId, buildId: build.id, key, forge, repo, base };
  const fresh = { id, ...place, branch: requestBranch(build.id, key), waveNumber, sha: headSha };
  await transaction.pullRequests.insertIfAbsent({ ...fresh, nextAt: new Date(0) });
  await askFor({ transaction, clock }, build, { id }, { waveNumber, sha: headSha });
}

/** Requests a delivery that is due, or one that is stuck when a person says `retry`. */
async function askFor(
  { transaction, clock }: Asking,
  build: BuildRow,
  where: { id: string },
  change: Partial<Pick<PullRequestRow, "waveNumber" | "sha" | "tries">> = {},
): Promise<void> {
  const present = await transaction.pullRequests.get(where);
  const [asked] = await transaction.pullRequests.update(
    { id: present.id, epoch: present.epoch },
    { ...change, status: "waiting", epoch: present.epoch + 1, nextAt: new Date(clock.now().getTime() + patienceMs) },
  );
  if (asked !== undefined) await eventsOf(transaction, build).openPullRequest(asked);
}

const unsettled: readonly PullRequestStatus[] = ["waiting", "open", "blocked"];
const atOnce = 20;

/** Requests the deliveries of these projects that are due again. Safe in any process. */
export async function askDuePullRequests(
  { store, clock }: Pick<Ports, "store" | "clock">,
  projectIds: "all" | ReadonlySet<string>,
): Promise<void> {
  const where = projectIds === "all" ? {} : { projectId: [...projectIds] };
  const rows = await store.pullRequests.list({ ...where, status: unsettled }, { by: "nextAt", limit: atOnce });
  for (const { id, buildId, nextAt, epoch } of rows) {
    if (nextAt === null || nextAt > clock.now()) continue;
    await store.transaction("ask-pull-request", async (transaction) => {
      const build = await transaction.lockBuild(buildId);
      const present = await transaction.pullRequests.get({ id });
      if (present.epoch === epoch) await askFor({ transaction, clock }, build, { id });
    });
  }
}

/**
 * Requests at once the deliveries of a build with these statuses, for a person's `retry` that may
 * have an origin (OG1). Returns how many there are.
 */
export async function retryPullRequests(
  { store, clock }: Pick<Ports, "store" | "clock">,
  buildId: string,
  {
    status = [...unsettled, "closed"],
    origin,
  }: { status?: readonly PullRequestStatus[]; origin?: string | undefined } = {},
): Promise<number> {
  return store.transaction("ask-pull-request", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const rows = await transaction.pullRequests.list({ buildId, status });
    for (const { id } of rows) await askFor({ transaction, clock }, build, { id }, { tries: 0 });
    if (rows.length > 0) await insertNote(transaction, { clock }, build, { origin, ...retriedNote });
    return rows.length;
  });
}
