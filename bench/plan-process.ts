// Checks one large plan and plans its waves, in a separate process so that its memory can be
// measured; prints the figures. argv: tasks, dependencies, "chain" or "random".
import { planWaves } from "../src/domain/plan/wave-planner.ts";
import { parsePlanValue } from "../src/plan/parse-plan.ts";
import { readPlanText } from "../src/plan/plan-text.ts";

export interface PlanFigures {
  readonly parseMs: number;
  readonly checkMs: number;
  readonly peakMegabytes: number;
  readonly waves: number;
}

const roles = ["frontend", "backend", "database", "infrastructure", "testing", "integration", "default"];
const [tasks = 0, dependencies = 0] = process.argv.slice(2, 4).map(Number);
const value = process.argv[4] === "chain" ? chain(tasks) : randomPlan(tasks, dependencies);
const baseDir = null;

const begun = performance.now();
const { plan, graph, faults } = parsePlanValue(value, { baseDir, env: {} });
if (plan === null || graph === null) throw new Error(`the plan has faults: ${JSON.stringify(faults.slice(0, 3))}`);
const waves = planWaves(plan, graph).length;
graph.criticalPath();
const checkMs = performance.now() - begun;
const peakMegabytes = (process.resourceUsage().maxRSS * 1024) / 1e6;

// Read the text last, so that its memory does not count for the checks.
const text = JSON.stringify(value);
const parseBegun = performance.now();
readPlanText(text, "json");
const parseMs = performance.now() - parseBegun;
const figures: PlanFigures = { parseMs, checkMs, peakMegabytes, waves };
process.stdout.write(JSON.stringify(figures));

function chain(count: number) {
  const links = Array.from({ length: count }, (_, at) => ({
    id: `t-${at}`,
    agent: roles[at % roles.length],
    run: "true",
    ...(at === 0 ? {} : { dependsOn: [`t-${at - 1}`] }),
  }));
  return { name: "chain", tasks: links };
}

/** Makes the same plan every time, with dependencies up to 200 tasks back, as in real plans. */
function randomPlan(count: number, edges: number) {
  const next = seeded(1);
  const needs = Array.from({ length: count }, () => new Set<string>());
  for (let left = Math.min(edges, count * 20); left > 0; ) {
    const at = 1 + Math.floor(next() * (count - 1));
    const on = `t-${Math.max(0, at - 1 - Math.floor(next() * Math.min(at, 200)))}`;
    if (needs[at]!.has(on)) continue;
    needs[at]!.add(on);
    left -= 1;
  }
  const list = needs.map((on, at) => ({
    id: `t-${at}`,
    agent: roles[at % roles.length],
    run: "true",
    dependsOn: [...on],
  }));
  return { name: "random", tasks: list };
}

/** Returns a generator of numbers from 0 to 1 (mulberry32, public domain). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
