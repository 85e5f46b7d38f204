// Builds one plan with this many tasks and prints the figures as JSON. A separate process, so that
// memory and processor time are those of this build.
import { buildPlan } from "./build.ts";

export interface ScaleFigures {
  readonly wallMs: number;
  /** User and system time of this process, without its children's and Postgres's. */
  readonly processorMs: number;
  readonly statements: number;
  readonly peakMegabytes: number;
}

const [count = 50, shape = "nothing"] = [Number(process.argv[2]), process.argv[3]];
const wide = 10;
/**
 * Makes a plan with layers of ten tasks, each of which depends on the one above it. `files` adds a
 * file per task, so that the tree grows with the plan.
 */
const plan = {
  name: "scale",
  limits: { tasksPerAgentPerWave: wide, maxParallelTasks: 4 },
  tasks: Array.from({ length: count }, (_, n) => ({
    id: `t-${n}`,
    run: shape === "files" ? `echo ${n} > file-${n}` : "true",
    changes: "optional",
    dependsOn: n < wide ? [] : [`t-${n - wide}`],
  })),
};

const { Client } = (await import("pg")).default;
const send = Client.prototype.query as (this: unknown, ...statement: unknown[]) => unknown;
let statements = 0;
Client.prototype.query = function counted(this: unknown, ...statement: unknown[]) {
  statements += 1;
  return send.apply(this, statement);
} as typeof Client.prototype.query;
const wallMs = await buildPlan(plan);
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
const figures: ScaleFigures = {
  wallMs,
  processorMs: (userCPUTime + systemCPUTime) / 1000,
  statements,
  peakMegabytes: (maxRSS * 1024) / 1e6,
};
process.stdout.write(`${JSON.stringify(figures)}\n`);
process.exit(0);
