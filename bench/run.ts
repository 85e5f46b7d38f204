// Runs benchmarks: `npm run bench`, `npm run bench -- tasks start-up`, `-- --list`, `-- --smoke`,
// `-- --large`, `-- --json FILE`.
import { writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { agents } from "./agents.ts";
import { api } from "./api.ts";
import { dashboard } from "./dashboard.ts";
import { docker } from "./docker.ts";
import { engineFanOut } from "./engine-fan-out.ts";
import { engineSteps } from "./engine-steps.ts";
import { followers } from "./followers.ts";
import { idleServer } from "./idle-server.ts";
import { largeTree } from "./large-tree.ts";
import { logs } from "./logs.ts";
import { processorShare } from "./measure.ts";
import { modelProxy } from "./model-proxy.ts";
import { plans } from "./plans.ts";
import { sandboxGuest } from "./sandbox-guest.ts";
import { scale } from "./scale.ts";
import { startUp } from "./start-up.ts";
import type { Benchmark, Finding, RunOptions } from "./target.ts";
import { tasks } from "./tasks.ts";

const benchmarks: readonly Benchmark[] = [
  plans,
  engineSteps,
  engineFanOut,
  tasks,
  scale,
  largeTree,
  startUp,
  sandboxGuest,
  modelProxy,
  agents,
  api,
  followers,
  logs,
  idleServer,
  dashboard,
  docker,
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    list: { type: "boolean" },
    smoke: { type: "boolean" },
    large: { type: "boolean" },
    json: { type: "string" },
  },
});
const unknown = positionals.find((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (unknown !== undefined) {
  process.stderr.write(
    `there is no benchmark ${unknown}; there are: ${benchmarks.map(({ name }) => name).join(", ")}\n`,
  );
  process.exit(2);
}
const chosen = positionals.length === 0 ? benchmarks : benchmarks.filter(({ name }) => positionals.includes(name));
if (values.list === true) {
  for (const { name, about } of benchmarks) process.stdout.write(`${name.padEnd(16)} ${about}\n`);
} else {
  await runAll(chosen, { smoke: values.smoke === true, large: values.large === true }, values.json ?? null);
}

async function runAll(which: readonly Benchmark[], options: RunOptions, jsonFile: string | null): Promise<void> {
  const { smoke } = options;
  const findings: (Finding & { benchmark: string; processorShare: number })[] = [];
  process.stdout.write(`Node ${process.version}, ${availableParallelism()} processors${smoke ? ", smoke only" : ""}\n`);
  process.stdout.write(`| what | ours | compared with | ratio | target | verdict |\n|---|---|---|---|---|---|\n`);
  for (const benchmark of which) {
    const before = processorShare();
    const found = await benchmark.run(options);
    const share = (before + processorShare()) / 2;
    for (const finding of found) {
      findings.push({ benchmark: benchmark.name, processorShare: share, ...finding });
      process.stdout.write(`${row(finding, smoke)}\n`);
    }
    process.stdout.write(`<!-- ${benchmark.name}: a busy loop got ${Math.round(share * 100)} % of a processor -->\n`);
  }
  if (jsonFile !== null) await writeFile(jsonFile, `${JSON.stringify(findings, null, 2)}\n`);
}

function row(finding: Finding, smoke: boolean): string {
  const { what, ours, unit, floor, limit } = finding;
  const ratio = floor === null ? null : ours / floor.value;
  const target = limit === null ? "" : ratio === null ? `≤ ${limit} ${unit}` : `≤ ${limit}×`;
  const verdict = limit === null || smoke ? "" : (ratio ?? ours) <= limit ? "held" : "**missed**";
  const compared = floor === null ? "" : `${floor.what}: ${amount(floor.value)} ${unit}`;
  const cells = [what, `${amount(ours)} ${unit}`, compared, ratio === null ? "" : `${amount(ratio)}×`, target, verdict];
  return `| ${cells.join(" | ")} |`;
}

function amount(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
