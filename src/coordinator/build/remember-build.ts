import { withBuildNote } from "../../domain/memory.ts";
import type { ApprovalRow, BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";

// A project's memory of a build is made from facts in the database: titles in its plan, people's
// decisions, verdicts of gates. It has none of an agent's own words (W12).

const maxItems = 12;
const maxTextLength = 300;

const short = (text: string, length = maxTextLength): string => {
  const line = text.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`;
};

/** Adds a note about a build that ends to its project's memory, or replaces its earlier note. */
export async function rememberBuild(
  transaction: StoreTransaction,
  build: BuildRow,
  end: { readonly status: string; readonly reason: string | null; readonly at: Date },
): Promise<void> {
  const waves = await transaction.waves.list({ buildId: build.id }, { by: "number" });
  if (!waves.some(({ status }) => status === "passed" || status === "blocked")) return;
  const { memory } = await transaction.lockProject(build.projectId);
  const facts = await factsOf(transaction, build, waves, end);
  await transaction.projects.update({ id: build.projectId }, { memory: withBuildNote(memory, build.id, facts) });
}

async function factsOf(
  transaction: StoreTransaction,
  build: BuildRow,
  waves: readonly WaveRow[],
  { status, reason, at }: { status: string; reason: string | null; at: Date },
): Promise<string[]> {
  const tasks = await transaction.tasks.list({ buildId: build.id, status: "completed" }, { by: "position" });
  const passed = waves.filter((wave) => wave.status === "passed").length;
  const titles = tasks.slice(0, maxItems).map(({ definition }) => short(definition.title, 80));
  const more = tasks.length > titles.length ? ` and ${tasks.length - titles.length} more` : "";
  const ended = `${status} ${at.toISOString().slice(0, 10)}: ${short(build.plan.name, 80)}, ${passed} of ${waves.length} waves passed`;
  const approvals = await transaction.approvals.list({ buildId: build.id }, { by: "createdAt" });
  return [
    ended,
    ...(titles.length === 0 ? [] : [`done: ${titles.join("; ")}${more}`]),
    ...approvals.slice(-maxItems).map((approval) => decisionFact(approval, waves)),
    ...(await fixedFacts(transaction, waves)),
    ...(reason === null || status !== "failed" ? [] : [`it failed: ${short(reason)}`]),
  ];
}

function decisionFact({ decision, by, reason, waveId }: ApprovalRow, waves: readonly WaveRow[]): string {
  const number = waves.find(({ id }) => id === waveId)?.number ?? "?";
  const why = reason === null ? "" : `: ${short(reason)}`;
  return `${short(by ?? "a person", 80)} ${decision} wave ${number}${why}`;
}

/** Which gates failed and passed after a fix, by the rules that had failed. */
async function fixedFacts(transaction: StoreTransaction, waves: readonly WaveRow[]): Promise<string[]> {
  const fixed = waves.filter((wave) => wave.status === "passed" && wave.fixRounds > 0).slice(-maxItems);
  const facts: string[] = [];
  for (const { id: waveId, number } of fixed) {
    const runs = await transaction.gateRuns.list({ waveId, verdict: "failed" });
    const findings = await transaction.findings.list({ gateRunId: runs.map(({ id }) => id) }, { by: "id", limit: 50 });
    const rules = [...new Set(findings.map(({ rule }) => short(rule, 60)))].slice(0, 5);
    if (rules.length > 0) facts.push(`fixed in wave ${number}: ${rules.join(", ")}`);
  }
  return facts;
}
