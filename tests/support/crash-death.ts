import { writeSync } from "node:fs";
import type { CrashInput, CrashLine } from "./crash-runs.ts";

/** Prints a line synchronously, because the process may die at the next instruction. */
export const say = (line: CrashLine): void => void writeSync(1, `${JSON.stringify(line)}\n`);

/** Counts the crash points that a process reaches, and calls `die` at the ones it is given. */
export function createDeath(
  { points, occurrence }: Pick<CrashInput, "points" | "occurrence">,
  die = (): void => void process.kill(process.pid, "SIGKILL"),
) {
  const fired = new Map<string, number>();
  return {
    /** Lists the points reached so far. */
    fired: () => [...fired.keys()],
    reach(point: string): void {
      fired.set(point, (fired.get(point) ?? 0) + 1);
      if (!points.includes(point) || fired.get(point) !== occurrence) return;
      say({ type: "killed", point, fired: [...fired.keys()] });
      die();
    },
  };
}
