import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { withGate } from "../build/selection.ts";
import { plainText } from "../parts/plain-text.ts";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";

interface RoundsProps {
  readonly buildId: string;
  /** The runs of one gate in one wave: one for each round of fixes. */
  readonly runs: readonly ApiType<"GateRun">[];
  readonly shown: string;
}

const mostFindings = 6;

/** The fix rounds of a gate side by side: what each one found, and what the fix before it settled. */
export function Rounds({ buildId, runs, shown }: RoundsProps) {
  if (runs.length < 2) return null;
  return (
    <section className="stack tight" aria-label="Fix rounds">
      <h3>Fix rounds</h3>
      <ol className="rounds">
        {runs.map((run, index) => (
          <li key={run.id} className="finding" aria-current={run.id === shown ? "true" : undefined}>
            <div className="row wrap">
              <Link to="/builds/$id" params={{ id: buildId }} search={withGate(run.id)} className="small strong">
                Round {run.round}
              </Link>
              <StatusBadge status={run.verdict ?? run.status} />
            </div>
            <div className="tiny faint num">
              <Took from={run.createdAt} to={run.endedAt} />
              {run.evidence?.tests != null && ` · ${run.evidence.tests.passed} of ${run.evidence.tests.total} passed`}
            </div>
            <Found run={run} before={runs[index - 1]} />
          </li>
        ))}
      </ol>
    </section>
  );
}

const keyOf = ({ rule, file, message }: ApiType<"GateFinding">): string => `${rule} ${file} ${message}`;

interface FoundProps {
  readonly run: ApiType<"GateRun">;
  readonly before: ApiType<"GateRun"> | undefined;
}

function Found({ run: { findings, endedAt }, before }: FoundProps) {
  const known = new Set(before?.findings.map(keyOf));
  const now = new Set(findings.map(keyOf));
  const settled = endedAt === null ? [] : (before?.findings ?? []).filter((finding) => !now.has(keyOf(finding)));
  const lines = [
    ...findings.map((finding) => ({ finding, word: before === undefined || known.has(keyOf(finding)) ? "" : "new: " })),
    ...settled.map((finding) => ({ finding, word: "settled: " })),
  ];
  return (
    <ul className="tiny">
      {lines.slice(0, mostFindings).map(({ finding, word }) => (
        <li key={`${word}${keyOf(finding)}`} className={word === "settled: " ? "clamp faint" : "clamp"}>
          {word}
          {plainText(finding.message)}
        </li>
      ))}
      {lines.length > mostFindings && <li className="faint">and {lines.length - mostFindings} more</li>}
    </ul>
  );
}
