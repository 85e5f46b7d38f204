import type { CheckReport } from "../../forge/port.ts";
import type { FindingRow, GateRunRow, PullRequestRow, WaveRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { evidenceLine, findingLine, findingsOf, latestRuns, showsWave } from "./text-of-request.ts";

type GateReport = Omit<CheckReport, "repository">;

const conclusions = { passed: "success", failed: "failure" } as const;
const levels = { low: "notice", medium: "warning", high: "failure", critical: "failure" } as const;

/** One report for each gate that judged a wave of a request, on that wave's own head. */
export async function reportsOf({ store }: Ports, row: PullRequestRow): Promise<GateReport[]> {
  const { buildId } = row;
  const waves = await store.waves.list({ buildId, status: "passed" }, { by: "number" });
  const reports: GateReport[] = [];
  for (const wave of waves.filter(({ number, headSha }) => headSha !== null && showsWave(row, number))) {
    const runs = latestRuns(
      await store.gateRuns.list({ waveId: wave.id, sha: wave.headSha ?? "" }, { by: "createdAt" }),
    );
    const judged = runs.filter(({ verdict }) => verdict !== null && !["absent", "off", "not-due"].includes(verdict));
    for (const run of judged) reports.push(reportOf(wave, run, await findingsOf(store, [run])));
  }
  return reports;
}

function reportOf(
  { buildId, number, fixRounds }: WaveRow,
  run: GateRunRow,
  findings: readonly FindingRow[],
): GateReport {
  const fixed = fixRounds === 0 ? "" : `, after ${fixRounds === 1 ? "a fix" : `${fixRounds} fixes`}`;
  return {
    sha: run.sha,
    key: `${buildId}/wave-${number}/${run.gate}`,
    name: `wavesmith/${run.gate}`,
    conclusion: conclusions[run.verdict as keyof typeof conclusions] ?? "neutral",
    title: (evidenceLine(run) || `${run.gate} ${run.verdict}`).replace(/\s+/g, " ").slice(0, 140),
    summary: [`Wave ${number}: ${run.verdict}${fixed}.`, "", ...findings.map(findingLine)].join("\n"),
    annotations: findings.flatMap(({ file, line, severity, message }) =>
      file === null || line === null ? [] : [{ path: file, line, level: levels[severity], message }],
    ),
  };
}
