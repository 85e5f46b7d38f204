import type { Plan, PlanTask } from "../../domain/plan/plan.ts";
import { quoteOutside } from "../../domain/quote-outside.ts";

// A finding cannot reopen a wave that has passed. So the plan gets one more task, for the fixer,
// and its wave goes through all gates like any other.

const timeoutMs = 30 * 60_000;
const keyOf = (round: number): string => `fix-ci-${round}`;

/** The task that fixes what CI or a reviewer found; `round` is its number, from 1. */
export function fixTask({ tasks }: Plan, { text, log }: { text: string; log: string | null }, round: number): PlanTask {
  const parts = [
    "CI or a reviewer found a fault in the commit that your tree starts from. Find its cause and fix it. If it is a check, run it yourself if you can, and do not weaken or remove it.",
    quoteOutside("what was found", text),
    ...(log === null ? [] : [quoteOutside("the end of its log", log)]),
  ];
  return {
    key: keyOf(round),
    position: tasks.length,
    title: `Fix what CI or a reviewer found (${round})`,
    agent: "fixer",
    dependsOn: [],
    instructions: parts.join("\n\n"),
    run: null,
    writes: null,
    acceptance: [],
    changes: "required",
    mayChangeTests: false,
    model: null,
    env: {},
    timeoutMs,
    retries: 1,
  };
}

/** How many such tasks the plan has had. */
export const fixRoundsOf = ({ tasks }: Plan): number =>
  tasks.filter(({ key, agent }) => agent === "fixer" && /^fix-ci-\d+$/.test(key)).length;
