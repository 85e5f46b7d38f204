import type { PlanFault } from "../../domain/plan/plan.ts";
import type { Context } from "../context.ts";
import { oneLine } from "../output/format.ts";

/** `path:line  plan.path  message`, the format that editors and CI systems recognise. */
export function faultLine(file: string, { line, path, message }: PlanFault): string {
  const place = line === null ? file : `${file}:${line}`;
  return [place, path, message]
    .map(oneLine)
    .filter((part) => part !== "")
    .join("  ");
}

/** Prints every fault of a plan. */
export function printPlanFaults({ out, json }: Context, file: string, faults: readonly PlanFault[]): void {
  if (json) {
    out.json({ type: "plan.faults", faults });
    return;
  }
  for (const fault of faults) out.note(faultLine(file, fault));
  const number = faults.length === 1 ? "1 fault" : `${faults.length} faults`;
  out.note(out.paintError("bad", `${number} in ${file}: nothing was started`));
}
