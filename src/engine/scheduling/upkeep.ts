import type { EngineContext } from "../context.ts";
import { fireCrons } from "./due-crons.ts";
import { adoptJobs, type Lessee } from "./leases.ts";

/** Work that each process does once per poll: adopts the jobs of dead processes and fires crons. */
export interface Upkeep {
  /** Does the work if it is due. */
  run(): Promise<void>;
  /** Makes it due now. */
  runSoon(): void;
}

export function createUpkeep(context: EngineContext, lessee: () => Lessee): Upkeep {
  let dueMs = 0;
  return {
    async run() {
      if (performance.now() < dueMs) return;
      await context.crash("engine.adopt.before-commit");
      await adoptJobs(context.database, lessee());
      await context.crash("engine.adopt.after-commit");
      await fireCrons(context);
      dueMs = performance.now() + context.pollMs;
    },
    runSoon() {
      dueMs = 0;
    },
  };
}
