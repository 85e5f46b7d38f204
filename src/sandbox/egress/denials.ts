import type { ProjectId } from "../../domain/ids.ts";
import type { EgressDenials } from "../port.ts";
import { readDecisions } from "./decisions.ts";
import { decisionsOf } from "./egress.ts";
import { usualPorts } from "./rules.ts";
import { targetText } from "./target.ts";

/** What the proxies of a data folder's sandboxes have denied, as far back as their files reach. */
export function createEgressDenials(dataDir: string): EgressDenials {
  return { denied: async (projectId, since) => deniedSince(dataDir, projectId, since) };
}

function deniedSince(dataDir: string, projectId: ProjectId, since: Date): string[] {
  const times = new Map<string, number>();
  for (const { decision, at, host, port, why } of readDecisions(decisionsOf({ dataDir, projectId }))) {
    // The others could not be allowed either.
    if (decision !== "denied" || (why !== "unlisted" && why !== "private") || new Date(at) < since) continue;
    const text = targetText({ host, port, isAddress: false }, usualPorts);
    times.set(text, (times.get(text) ?? 0) + 1);
  }
  return [...times].sort(([, a], [, b]) => b - a).map(([text]) => text);
}
