import {
  type BuildEventName,
  type EventData,
  makeEvent,
  type RepositoryEventName,
  requestFacts,
} from "../../domain/events/events.ts";
import type { BuildRow, StoreTransaction } from "../../store/port.ts";
import type { CheckFact, OutsideFact, ReadDelivery } from "../../webhooks/port.ts";
import type { Ports } from "../port.ts";
import { findBuildOf, findBuildOfNumber, findBuildOfRequest } from "./find-build.ts";
import { findProjectOf } from "./find-project.ts";

// TD1. A delivery's row and the events that follow from it are one commit. The outbox sends them,
// so a process that dies after its answer loses nothing.
// TD2. An event's id is made from the id of the comment, check or review, not of the delivery. So a
// webhook, a repeat of it and polling all lead to one event.

export interface IncomingDelivery {
  /** Its source and its id there. */
  readonly id: string;
  readonly tenantId: string;
  readonly event: string;
  readonly reading: ReadDelivery;
}

type DeliveryPorts = Pick<Ports, "store" | "clock" | "forgeRepositories">;

/** Handles a delivery from a forge or a CI system. Returns what follows from it, in words. */
export async function takeDelivery(
  ports: DeliveryPorts,
  { id, tenantId, event, reading }: IncomingDelivery,
): Promise<{ readonly answer: string; readonly repeated: boolean }> {
  const { store, clock } = ports;
  return store.transaction("take-delivery", async (transaction) => {
    const own = { id, tenantId, event, answer: "", receivedAt: clock.now() };
    if ((await transaction.webhookDeliveries.insertIfAbsent(own)) === null) {
      const { answer } = await transaction.webhookDeliveries.get({ id });
      return { answer, repeated: true };
    }
    if (reading.repository !== undefined) await followRename(transaction, reading.repository);
    const answers = [];
    for (const fact of reading.facts) answers.push(await takeFact(transaction, ports, fact));
    const answer = reading.ignored === null ? answers.join("; ") : `nothing to do: ${reading.ignored}`;
    await transaction.webhookDeliveries.update({ id }, { answer });
    return { answer, repeated: false };
  });
}

/**
 * Notes a repository's new name at its requests, by which we find its builds and its project. The
 * next delivery would note it as well, but people write under the new name at once.
 */
async function followRename(
  transaction: StoreTransaction,
  { name: repo, id: repoId }: NonNullable<ReadDelivery["repository"]>,
): Promise<void> {
  const requests = await transaction.pullRequests.pick({ forge: "github", repoId }, ["id", "repo"]);
  const renamed = requests.filter((request) => request.repo !== repo);
  if (renamed.length > 0) await transaction.pullRequests.update({ id: renamed.map(({ id }) => id) }, { repo });
}

/** Turns a fact into its event. Returns what will be done, in words. */
async function takeFact(transaction: StoreTransaction, ports: DeliveryPorts, fact: OutsideFact): Promise<string> {
  switch (fact.kind) {
    case "check":
      return takeCheck(transaction, fact);
    case "command":
    case "issue":
    case "label":
    case "push":
      return takeForProject(transaction, ports, fact);
    default:
      return takeForRequest(transaction, fact);
  }
}

async function takeCheck(transaction: StoreTransaction, fact: CheckFact): Promise<string> {
  const build = await findBuildOf(transaction, fact);
  if (build === null) return `nothing to do: no build of ${fact.repository} has this branch or commit`;
  const { kind: _, completedAt, ...check } = fact;
  await emitFor(transaction, build, "ci/check.completed", { ...check, completedAt: completedAt.toISOString() });
  return `the check ${fact.name} (${fact.conclusion}) is passed on to build ${build.id}`;
}

const requestEvents = {
  comment: "forge/comment.made",
  thread: "forge/thread.settled",
  review: "forge/review.submitted",
  closed: "forge/request.closed",
} as const;

async function takeForRequest(
  transaction: StoreTransaction,
  { kind, ...facts }: Exclude<OutsideFact, { kind: "check" | "command" | "issue" | "label" | "push" }>,
): Promise<string> {
  const { repository, number } = facts;
  const build = await findBuildOfRequest(transaction, { repository, number });
  if (build === null) return `nothing to do: ${repository}#${number} is no request of a build`;
  await emitFor(transaction, build, requestEvents[kind], facts);
  return `the ${kind} by ${facts.by} is passed on to build ${build.id}`;
}

const projectEvents = {
  command: "forge/command.given",
  issue: "forge/issue.ready",
  label: "forge/label.added",
  push: "forge/branch.pushed",
} as const;

/** Handles what may start a build, only for a repository that we know. */
async function takeForProject(
  transaction: StoreTransaction,
  ports: DeliveryPorts,
  { kind, ...facts }: Extract<OutsideFact, { kind: "command" | "issue" | "label" | "push" }>,
): Promise<string> {
  const { repository } = facts;
  const known = await findProjectOf(transaction, ports, repository);
  if (known === null)
    return `nothing to do: no project delivers to ${repository}, and WAVESMITH_GITHUB_REPOSITORIES does not name it`;
  const { tenantId, projectId, project } = known;
  const isCommand = kind === "command" && "number" in facts;
  const build = isCommand ? await findBuildOfNumber(transaction, { tenantId, repository, number: facts.number }) : null;
  const data = { tenantId, projectId, project, ...(build === null ? {} : { buildId: build.id }), ...facts };
  const name = projectEvents[kind];
  await transaction.emit(makeEvent<RepositoryEventName>(name, facts.origin, 0, data as EventData<typeof name>));
  return `the ${kind} by ${facts.by} is passed on to the project ${project}`;
}

/** Writes an event about a build to the outbox, once for each origin (TD2). */
async function emitFor<Name extends BuildEventName>(
  transaction: StoreTransaction,
  build: BuildRow,
  name: Name,
  facts: { readonly origin: string } & Readonly<Record<string, unknown>>,
): Promise<void> {
  const { tenantId, projectId, id: buildId } = build;
  const data = { tenantId, projectId, buildId, ...requestFacts(build), ...facts };
  await transaction.emit(makeEvent<BuildEventName>(name, facts.origin, 0, data as EventData<Name>));
}
