import type { ApiType } from "../../src/client/client.ts";
import { durationText, useNow } from "../parts/times.tsx";

/**
 * About how long the rest takes: the waves to come, each as long as those before. Each wave waits
 * for the one before it, so the open tasks of the critical path lie in as many of them.
 */
export function TimeLeft({ graph: { waves } }: { readonly graph: ApiType<"BuildGraph"> }) {
  const now = useNow();
  const took = waves.flatMap(({ createdAt, endedAt, status }) =>
    status === "passed" && createdAt !== null && endedAt !== null
      ? [new Date(endedAt).getTime() - new Date(createdAt).getTime()]
      : [],
  );
  if (took.length === 0) return null;
  const usual = took.reduce((sum, ms) => sum + ms, 0) / took.length;
  const current = waves.find(({ status, endedAt }) => status !== "planned" && endedAt === null);
  const begun = current?.createdAt == null ? null : now - new Date(current.createdAt).getTime();
  const toCome = waves.filter(({ status }) => status === "planned").length;
  const left = toCome * usual + (begun === null ? 0 : Math.max(0, usual - begun));
  return (
    <span title="Estimated from the waves that passed">
      about <span className="num">{durationText(left)}</span> left
    </span>
  );
}
