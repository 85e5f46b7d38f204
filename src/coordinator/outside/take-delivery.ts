import {
  type BuildEventName,
  type EventData,
  makeEvent,
  type RepositoryEventName,
  requestFacts,
} from "../../domain/events/events.ts";
import type { BuildRow, StoreTransaction } from "../../store/port.ts";
import type { CheckFact, OutsideFact, ReadDelivery, SuiteFact } from "../../webhooks/port.ts";
import type { Ports } from "../port.ts";
import { findBuildOf, findBuildOfNumber, findBuildOfRequest, type RepositoryClues } from "./find-build.ts";
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
    const repositoryId = reading.repository?.id ?? null;
    for (const fact of reading.facts) answers.push(await takeFact({ transaction, ports, repositoryId }, fact));
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

/** A delivery whose facts are being taken. */
interface Taking extends Pick<RepositoryClues, "repositoryId"> {
  readonly transaction: StoreTransaction;
  readonly ports: DeliveryPorts;
}

/** Turns a fact into its event. Returns what will be done, in words. */
async function takeFact(taking: Taking, fact: OutsideFact): Promise<string> {
  switch (fact.kind) {
    case "check":
    case "suite":
      return takeCheck(taking, fact);
    case "command":
    case "issue":
    case "label":
    case "push":
      return takeForProject(taking, fact);
    default:
      return takeForRequest(taking, fact);
  }
}

async function takeCheck({ transaction, repositoryId }: Taking, fact: CheckFact | SuiteFact): Promise<string> {
  const build = await findBuildOf(transaction, { ...fact, repositoryId });
  if (build === null) return `nothing to do: no build of ${fact.repository} has this branch or commit`;
  const { kind, completedAt, ...facts } = fact;
  const name = kind === "check" ? "ci/check.completed" : "ci/suite.completed";
  await emitFor(transaction, build, name, { ...facts, completedAt: completedAt.toISOString() });
  return `the ${kind} ${fact.name} (${fact.conclusion}) is passed on to build ${build.id}`;
}

const requestEvents = {
  comment: "forge/comment.made",
  thread: "forge/thread.settled",
  review: "forge/review.submitted",
  closed: "forge/request.closed",
} as const;

async function takeForRequest(
  { transaction, repositoryId }: Taking,
  { kind, ...facts }: Exclude<OutsideFact, { kind: "check" | "suite" | "command" | "issue" | "label" | "push" }>,
): Promise<string> {
  const { repository, number } = facts;
  const build = await findBuildOfRequest(transaction, { repository, repositoryId, number });
  if (build === null) return `nothing to do: ${repository}#${number} is not a build's request`;
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
  { transaction, ports, repositoryId }: Taking,
  { kind, ...facts }: Extract<OutsideFact, { kind: "command" | "issue" | "label" | "push" }>,
): Promise<string> {
  const { repository } = facts;
  const clues = { repository, repositoryId };
  const known = await findProjectOf(transaction, ports, clues);
  if (known === null)
    return `nothing to do: no project delivers to ${repository}, and WAVESMITH_GITHUB_REPOSITORIES does not name it`;
  const { tenantId, projectId, project } = known;
  const isCommand = kind === "command" && "number" in facts;
  const build = isCommand ? await findBuildOfNumber(transaction, { tenantId, ...clues, number: facts.number }) : null;
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
