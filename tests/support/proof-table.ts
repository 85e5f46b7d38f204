import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { findPinned } from "../../src/sandbox/tools/table.ts";
import { type ProvenAgent, type ProvenDriver, provenAgents } from "./agent-place.ts";

// The tables of docs/agents.md that say what was tried with which agent. A run replaces the cells
// that it has tried, and clears those of an agent whose version is another by now.

const page = fileURLToPath(new URL("../../docs/agents.md", import.meta.url));
const untried = "not tried";

export interface ProofCell {
  readonly scenario: string;
  readonly agent: ProvenAgent;
  readonly result: string;
}

const titleOf = (agent: ProvenAgent): string => {
  const pinned = agent === "builtin" ? null : findPinned(agent)!;
  return pinned === null ? "built-in" : `${pinned.title} ${pinned.version}`;
};

/** Writes what was found under one driver into its table. */
export function writeProof(driver: ProvenDriver, scenarios: readonly string[], cells: readonly ProofCell[]): void {
  const text = readFileSync(page, "utf8");
  const [begin, end] = [`<!-- proof ${driver} -->\n`, `<!-- end of proof ${driver} -->`];
  const [before, rest] = text.split(begin);
  const [table, after] = rest?.split(end) ?? [];
  if (before === undefined || table === undefined || after === undefined) throw new Error(`${page} has no ${begin}`);
  const earlier = readTable(table);
  const rows = scenarios.map((scenario) => [
    scenario,
    ...provenAgents.map((agent) => {
      const tried = cells.findLast((cell) => cell.scenario === scenario && cell.agent === agent);
      return tried?.result ?? earlier.get(`${scenario}|${titleOf(agent)}`) ?? untried;
    }),
  ]);
  const heads = ["", ...provenAgents.map(titleOf)];
  const lines = [heads, heads.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`.replace("|  |", "| |"));
  writeFileSync(page, `${before}${begin}${lines.join("\n")}\n${end}${after}`);
}

/** Reads the cells of a table, by the names of row and column. */
function readTable(table: string): ReadonlyMap<string, string> {
  const rows = table
    .trim()
    .split("\n")
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const [heads = [], , ...body] = rows;
  return new Map(body.flatMap(([name, ...row]) => row.map((cell, at) => [`${name}|${heads[at + 1]}`, cell] as const)));
}
