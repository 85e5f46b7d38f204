import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { findPinned } from "../../src/sandbox/tools/table.ts";
import { type ProvenAgent, type ProvenDriver, planSpecOf, provenAgents, provenDrivers } from "./agent-place.ts";

// What was tried with which agent. Each run of tests/e2e/agent-proof.test.ts writes each result to
// agent-proof.json as soon as it is known, and the tables of docs/agents.md are made from that
// file. Results of an agent's earlier version, or with another model, do not count.

const inRepository = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const file = inRepository("tests/support/agent-proof.json");
const page = inRepository("docs/agents.md");
const untried = "not tried";

/** Results by driver, agent with its version, and scenario. */
type Proof = Record<string, Record<string, Record<string, string>>>;

interface ProofCell {
  readonly driver: ProvenDriver;
  readonly agent: ProvenAgent;
  readonly scenario: string;
  readonly result: string;
}

function titleOf(agent: ProvenAgent): string {
  const pinned = agent === "builtin" ? null : findPinned(agent);
  const name = pinned === null ? "built-in" : `${pinned.title} ${pinned.version}`;
  return `${name}, ${planSpecOf(agent).model.split(":")[1]}`;
}

const readProof = (): Proof => JSON.parse(readFileSync(file, "utf8")) as Proof;

/** Stores the result of one of these scenarios, and updates the table. */
export function writeProof({ driver, agent, scenario, result }: ProofCell, scenarios: readonly string[]): void {
  const earlier = readProof();
  const resultOf = (row: string, column: ProvenDriver, of: ProvenAgent): string =>
    row === scenario && column === driver && of === agent ? result : (earlier[column]?.[titleOf(of)]?.[row] ?? untried);
  const proof = Object.fromEntries(
    provenDrivers.map((column) => [
      column,
      Object.fromEntries(
        provenAgents.map((of) => [
          titleOf(of),
          Object.fromEntries(scenarios.map((row) => [row, resultOf(row, column, of)])),
        ]),
      ),
    ]),
  );
  writeFileSync(file, `${JSON.stringify(proof, null, 2)}\n`);
  writeFileSync(page, withProof(readFileSync(page, "utf8")));
}

/** Returns the page with the tables of the stored results. */
export function withProof(text: string): string {
  const proof = readProof();
  return provenDrivers.reduce((before, driver) => withTable(before, driver, proof[driver] ?? {}), text);
}

function withTable(text: string, driver: ProvenDriver, results: Proof[string]): string {
  const [begin, end] = [`<!-- proof ${driver} -->\n`, `<!-- end of proof ${driver} -->`];
  const [before, rest] = text.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error(`${page} has no ${begin}`);
  const titles = provenAgents.map(titleOf);
  const scenarios = [...new Set(Object.values(results).flatMap(Object.keys))];
  const rows = scenarios.map((scenario) => [scenario, ...titles.map((title) => results[title]?.[scenario] ?? untried)]);
  const heads = ["", ...titles];
  const lines = [heads, heads.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`.replace("|  |", "| |"));
  return `${before}${begin}${lines.join("\n")}\n${end}${after}`;
}
