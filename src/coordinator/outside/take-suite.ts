import type { EventData } from "../../domain/events/events.ts";
import type { OutsideFact } from "../../webhooks/port.ts";
import { readGithub } from "../../webhooks/read-github.ts";
import type { Ports } from "../port.ts";
import { findAtForge } from "./at-forge.ts";
import { takeDelivery } from "./take-delivery.ts";

// SU1. A suite's verdict is that of its checks. We read them from the forge, under the ids that
// their own webhooks have (TD2), so a repository that sends both has each verdict once. A workflow
// that ended before its first job has no check, so its own verdict counts.

export type CompletedSuite = EventData<"ci/suite.completed">;

/** Checks start no build. */
const noTriggers = { label: "", assignee: null };

/** Passes on the checks of a suite that ended. Doing it twice changes nothing. */
export async function takeSuite(ports: Ports, suite: CompletedSuite): Promise<string> {
  const { repository, suiteId, tenantId, name, conclusion } = suite;
  const place = await findAtForge(ports, repository);
  if (place === null) return `${repository} is gone`;
  const items = await place.forge.readSuite(place.repository, suiteId);
  let passedOn = 0;
  for (const { id, event, payload } of items) {
    const reading = readGithub(event, payload, noTriggers);
    if (reading.facts.length === 0) continue;
    passedOn += 1;
    await takeDelivery(ports, { id: `github-news:${id}`, tenantId, event, reading });
  }
  if (items.length > 0 || conclusion !== "failed") return `${passedOn} checks are passed on`;
  const own = { id: `suite:${repository}:${suiteId}:${conclusion}`, tenantId, event: "check_suite" };
  await takeDelivery(ports, { ...own, reading: { facts: [ownVerdict(suite)], ignored: null } });
  return `${name} has no check, and failed`;
}

/** One verdict, although a suite and its workflow both report it. */
function ownVerdict({ repository, branch, sha, name, url, suiteId, ...suite }: CompletedSuite): OutsideFact {
  return {
    ...{ kind: "check", repository, branch, sha, name, url, conclusion: suite.conclusion, jobId: null },
    origin: `github:${repository.toLowerCase()}:suite:${suiteId}:${suite.conclusion}`,
    log: `${name} failed before its first job, as it does when there is a fault in the workflow's file.`,
    completedAt: new Date(suite.completedAt),
  };
}
