import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { median } from "./measure.ts";
import type { PlanFigures } from "./plan-process.ts";
import type { Benchmark } from "./target.ts";

const program = fileURLToPath(new URL("./plan-process.ts", import.meta.url));

async function measure(tasks: number, dependencies: number, shape: "random" | "chain"): Promise<PlanFigures> {
  const argv = ["--import", "tsx", program, String(tasks), String(dependencies), shape];
  const { stdout } = await promisify(execFile)(process.execPath, argv);
  return JSON.parse(stdout) as PlanFigures;
}

export const plans: Benchmark = {
  name: "plans",
  about: "a large plan is checked and laid into waves, in a fresh process each time",
  async run({ smoke }) {
    const [tasks, dependencies, length] = smoke ? [100, 300, 100] : [10_000, 30_000, 100_000];
    const rounds: PlanFigures[] = [];
    for (let round = 0; round < (smoke ? 1 : 7); round += 1) rounds.push(await measure(tasks, dependencies, "random"));
    const of = (key: keyof PlanFigures) => median(rounds.map((figures) => figures[key]));
    const chain = await measure(length, 0, "chain");
    const size = `${tasks} tasks, ${dependencies} dependencies`;
    return [
      { what: `${size}: checked and laid into waves`, ours: of("checkMs"), unit: "ms", floor: null, limit: 600 },
      {
        what: `${size}: memory of the process at most`,
        ours: of("peakMegabytes"),
        unit: "MB",
        floor: null,
        limit: 300,
      },
      { what: `${size}: reading it as JSON text`, ours: of("parseMs"), unit: "ms", floor: null, limit: null },
      { what: `chain of ${length} tasks, no overflow`, ours: chain.checkMs, unit: "ms", floor: null, limit: null },
    ];
  },
};
