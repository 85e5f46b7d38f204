import type { ProjectId } from "../../domain/ids.ts";
import type { EgressDenials } from "../port.ts";
import { type EgressDecision, readDecisions } from "./decision-log.ts";
import { decisionsOf } from "./egress.ts";
import { usualPorts } from "./rules.ts";
import { targetText } from "./target.ts";

/**
 * Reads what the proxies of a data directory denied or did not reach, as far back as their files
 * go.
 */
export function createEgressDenials(dataDir: string): EgressDenials {
  const since = (projectId: ProjectId, from: Date): EgressDecision[] =>
    readDecisions(decisionsOf({ dataDir, projectId })).filter(({ at }) => new Date(at) >= from);
  return {
    denied: async (projectId, from) => {
      // The other hosts could not be allowed anyway.
      const isAllowable = ({ decision, why }: EgressDecision) =>
        decision === "denied" && (why === "unlisted" || why === "private");
      return byFrequency(since(projectId, from).filter(isAllowable).map(targetOf));
    },
    unreachable: async (projectId, from) => {
      const failed = since(projectId, from).filter(({ decision }) => decision === "unreachable");
      return byFrequency(failed.map((one) => `${targetOf(one)} (${one.problem ?? "no connection"})`));
    },
  };
}

const targetOf = ({ host, port }: EgressDecision): string => targetText({ host, port, isAddress: false }, usualPorts);

function byFrequency(texts: readonly string[]): string[] {
  const times = new Map<string, number>();
  for (const text of texts) times.set(text, (times.get(text) ?? 0) + 1);
  return [...times].sort(([, a], [, b]) => b - a).map(([text]) => text);
}
