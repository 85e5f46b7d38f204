import type { Verdict } from "../../domain/status.ts";
import type { TaskRow } from "../../store/port.ts";
import { commitReader } from "../commit-reader.ts";
import type { Ports } from "../port.ts";
import { notDue, previewIsDue } from "./gate-due.ts";
import type { LoadedGate } from "./gate-run.ts";

/** The work of a gate at this point of its build. */
export type GateWork =
  | { readonly kind: "verdict"; readonly verdict: Verdict; readonly note: string }
  | { readonly kind: "command"; readonly command: string; readonly timeoutMs: number }
  | { readonly kind: "checks" };

const switchedOff = { kind: "verdict", verdict: "off", note: "switched off in the plan" } as const;

/** Decides a gate's work; the same plan, tasks and commit give the same work. */
export async function gateWork(ports: Ports, { run, build, tasks }: LoadedGate): Promise<GateWork> {
  const settings = build.plan.gates;
  if (run.gate === "critic") return settings.critic === false ? switchedOff : { kind: "checks" };
  const gate = settings[run.gate];
  if (gate === false) return switchedOff;
  const early = notDue(gate, tasks);
  if (early !== null) return early;
  if (run.gate === "integration") return integrationWork({ run, build, tasks });
  const found =
    gate.command ?? (await ports.gates.detectTests(commitReader(ports, build.projectId, run.sha)))?.command ?? null;
  if (found !== null) return { kind: "command", command: found, timeoutMs: gate.timeoutMs };
  return { kind: "verdict", verdict: "absent", note: "no test command is configured and none was detected" };
}

function integrationWork({ build, tasks }: Pick<LoadedGate, "run" | "build" | "tasks">): GateWork {
  const gate = build.plan.gates.integration;
  if (gate === false) return switchedOff;
  const nothing = gate.command === null && !previewIsDue(build, tasks) && acceptanceChecks(tasks).length === 0;
  if (nothing) return { kind: "verdict", verdict: "absent", note: "no command, preview or acceptance check to run" };
  return { kind: "command", command: gate.command ?? "", timeoutMs: gate.timeoutMs };
}

/** Returns the acceptance checks of every joined task, in plan order. */
export function acceptanceChecks(tasks: readonly TaskRow[]): { taskKey: string; check: string }[] {
  return tasks
    .filter((task) => task.status === "completed")
    .flatMap((task) =>
      task.definition.acceptance.flatMap(({ check }) => (check === null ? [] : [{ taskKey: task.key, check }])),
    );
}
