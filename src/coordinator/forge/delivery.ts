import { createHash } from "node:crypto";
import { present } from "../../domain/known.ts";
import type { Forge, ForgePlace } from "../../forge/port.ts";
import type { BuildRow, PullRequestRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/** A pull request that is brought up to date, and the forge it goes to. */
export interface RequestDelivery {
  readonly ports: Ports;
  readonly forge: Forge;
  readonly build: BuildRow;
  readonly row: PullRequestRow;
}

/** Updates the request's row unless its delivery was requested again. */
export const changeRequest = ({ ports, row }: RequestDelivery, patch: Partial<PullRequestRow>) =>
  ports.store.pullRequests.update({ id: row.id, epoch: row.epoch }, { ...patch, updatedAt: ports.clock.now() });

/** Returns the repository that the delivery's first step found. */
export const repositoryOf = ({ forge, row }: RequestDelivery): ForgePlace =>
  forge.locateRepository({ name: row.repo, id: present(row.repoId, "pullRequest.repoId") });

/** Does a step unless it was already done with the same facts. */
export async function doOnce(
  { ports: { store, clock }, row }: RequestDelivery,
  { step, facts }: { step: string; facts: unknown },
  work: () => Promise<void>,
): Promise<void> {
  const fingerprint = createHash("sha256").update(JSON.stringify(facts)).digest("hex").slice(0, 32);
  const known = await store.forgeCalls.find({ pullRequestId: row.id, step });
  if (known?.fingerprint === fingerprint) return;
  await work();
  const done = { fingerprint, doneAt: clock.now() };
  if (known !== null) await store.forgeCalls.update({ pullRequestId: row.id, step }, done);
  else await store.forgeCalls.insertIfAbsent({ buildId: row.buildId, pullRequestId: row.id, step, ...done });
}
