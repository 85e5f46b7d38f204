import { agentSpecFor } from "../../domain/plan/plan.ts";
import { homePath } from "../../domain/sandbox/volume-paths.ts";
import type { AttemptInContext } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/** An attempt's id and the fence under which it may be changed (W4). */
export interface AttemptRef {
  readonly attemptId: string;
  readonly fence: number;
}

export type LoadedAttempt = AttemptInContext;

export const loadAttempt = (ports: Pick<Ports, "store">, attemptId: string): Promise<LoadedAttempt> =>
  ports.store.attemptInContext(attemptId);

/** Fixes of one wave share a home, so that a round knows what earlier ones tried. */
export const homeOf = ({ attempt, build, wave, task }: LoadedAttempt): string =>
  homePath(build.id, task?.key ?? `${attempt.kind}-${wave.number}`);

/** Returns the homes an attempt may use; none for scripts and commands, which start empty. */
export function homesOf(loaded: LoadedAttempt): string[] {
  const { attempt, build, task } = loaded;
  if (attempt.kind === "generate" || (task !== null && task.definition.run !== null)) return [];
  const runtime = agentSpecFor(build.plan, attempt.role)?.runtime;
  return runtime === "acp" || runtime === "builtin" ? [homeOf(loaded)] : [];
}
