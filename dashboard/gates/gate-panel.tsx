import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { gatesQuery } from "../api/queries.ts";
import { withGate } from "../build/selection.ts";
import { SidePanel } from "../parts/side-panel.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";
import { EvidenceView } from "./evidence.tsx";
import { Findings } from "./findings.tsx";
import { Rounds } from "./rounds.tsx";

/** One gate run: its verdict, its findings and its evidence, and the other runs of the gate. */
export function GatePanel({ build, run: id }: { readonly build: ApiType<"Build">; readonly run: string }) {
  const gates = useQuery(gatesQuery(build.id));
  return (
    <Shown query={gates} what="the gate">
      {(runs) => {
        const run = runs.find((one) => one.id === id);
        if (run === undefined) {
          return (
            <SidePanel title="Gate" label="Gate">
              <Empty title="This build has no such gate run." />
            </SidePanel>
          );
        }
        return <Run build={build} run={run} all={runs.filter(({ gate }) => gate === run.gate)} />;
      }}
    </Shown>
  );
}

interface RunProps {
  readonly build: ApiType<"Build">;
  readonly run: ApiType<"GateRun">;
  readonly all: readonly ApiType<"GateRun">[];
}

function Run({ build, run, all }: RunProps) {
  const { gate, wave, round, verdict, status, reason, evidence, findings, createdAt, endedAt } = run;
  return (
    <SidePanel
      label={`${gate} of wave ${wave}`}
      title={
        <>
          <div className="row wrap">
            <h2>
              {gate} <span className="soft">of wave {wave}</span>
            </h2>
            <StatusBadge status={verdict ?? status} />
          </div>
          <div className="tiny faint">
            {round > 1 && `round ${round} · `}
            <Took from={createdAt} to={endedAt} /> · commit <span className="mono">{run.sha.slice(0, 12)}</span>
          </div>
        </>
      }
    >
      <div className="side-body stack">
        {reason !== null && (
          <div className="notice" data-tone={verdict === "failed" ? "bad" : "idle"}>
            {reason}
          </div>
        )}
        <Rounds buildId={build.id} runs={all.filter((one) => one.wave === wave)} shown={run.id} />
        <Findings findings={findings} buildId={build.id} wave={wave} />
        {evidence === null ? (
          <Empty
            title={endedAt === null ? "No evidence yet: the gate is still running." : "This run left no evidence."}
          />
        ) : (
          <EvidenceView evidence={evidence} />
        )}
        <History build={build} run={run} all={all} />
      </div>
    </SidePanel>
  );
}

function History({ build, run, all }: RunProps) {
  if (all.length < 2) return null;
  return (
    <section className="stack tight">
      <h3>Every {run.gate} run of this build</h3>
      <ul className="list plain-list">
        {all.map((one) => (
          <li key={one.id}>
            <Link
              to="/builds/$id"
              params={{ id: build.id }}
              search={withGate(one.id)}
              className="row plain history-line small"
              aria-current={one.id === run.id ? "true" : undefined}
            >
              <span>
                wave {one.wave}
                {one.round > 1 && `, round ${one.round}`}
              </span>
              <span className="grow" />
              {one.findings.length > 0 && (
                <span className="faint tiny">
                  {one.findings.length} {one.findings.length === 1 ? "finding" : "findings"}
                </span>
              )}
              <StatusBadge status={one.verdict ?? one.status} />
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
