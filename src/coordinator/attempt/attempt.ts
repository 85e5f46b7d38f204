import { agentSpecFor } from "../../domain/plan.ts";
import type { AttemptInContext } from "../../store/port.ts";
import { homePath } from "../names.ts";
import type { Ports } from "../port.ts";

/** Names an attempt and the fence under which it may be touched (W4). */
export interface AttemptRefer {
  readonly attemptId: string;
  readonly fence: number;
}

export type LoadedAttempt = AttemptInContext;

export const loadAttempt = (ports: Pick<Ports, "store">, attemptId: string): Promise<LoadedAttempt> =>
  ports.store.attemptInContext(attemptId);

/** Fixes of one wave share a home: the next round knows what the one before tried. */
export const homeOf = ({ attempt, build, wave, task }: LoadedAttempt): string =>
  homePath(build.id, task?.key ?? `${attempt.kind}-${wave.number}`);

/** Scripts and commands have none: theirs is empty each time. */
export function homesOf(loaded: LoadedAttempt): string[] {
  const { attempt, build, task } = loaded;
  if (attempt.kind === "generate" || (task !== null && task.definition.run !== null)) return [];
  const runtime = agentSpecFor(build.plan, attempt.role)?.runtime;
  return runtime === "acp" || runtime === "builtin" ? [homeOf(loaded)] : [];
}
