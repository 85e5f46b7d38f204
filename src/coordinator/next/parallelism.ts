import { agentSpecFor, type Plan } from "../../domain/plan/plan.ts";

/** How many attempts for each processor may run at once when they mostly wait for a model. */
const waitingPerProcessor = 4;
/**
 * Memory that an agent and its tools may need, so that many waiting agents do not exhaust the
 * sandbox.
 */
const agentBytes = 512 * 1024 ** 2;

/** The resources that a build's attempts share. */
export interface Room {
  readonly processors: number;
  /** The machine's memory, or the sandbox's if that is less. */
  readonly memoryBytes: number;
}

export interface Parallelism {
  readonly maxParallelTasks: number;
  readonly maxComputing: number;
}

/**
 * Returns how many attempts may run at once: the plan's limit, or what the machine has room for.
 */
export function parallelismOf({ limits }: Pick<Plan, "limits">, { processors, memoryBytes }: Room): Parallelism {
  if (limits.maxParallelTasks !== null)
    return { maxParallelTasks: limits.maxParallelTasks, maxComputing: limits.maxParallelTasks };
  return { maxParallelTasks: slotsIn({ processors, memoryBytes }), maxComputing: processors };
}

/** Returns how many attempts fit into this room when most of them wait for a model. */
export function slotsIn({ processors, memoryBytes }: Room): number {
  const fitting = Math.floor(memoryBytes / agentBytes);
  return Math.max(processors, Math.min(waitingPerProcessor * processors, fitting));
}

/**
 * Whether an attempt keeps a processor busy: a script or a command does, an agent waits for its
 * model.
 */
export function attemptComputes(plan: Pick<Plan, "agents">, role: string, run: string | null): boolean {
  if (run !== null) return true;
  const runtime = agentSpecFor(plan, role)?.runtime ?? "command";
  return runtime === "command";
}
