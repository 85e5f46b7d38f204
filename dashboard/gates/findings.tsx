import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { plainText } from "../parts/plain-text.ts";
import { SeverityBadge } from "../parts/status.tsx";

const order = ["critical", "high", "medium", "low"];

interface FindingsProps {
  readonly findings: readonly ApiType<"GateFinding">[];
  readonly buildId: string;
  readonly wave: number;
}

/** A gate's findings, most severe first. */
export function Findings({ findings, buildId, wave }: FindingsProps) {
  if (findings.length === 0) return null;
  const sorted = [...findings].sort((one, other) => order.indexOf(one.severity) - order.indexOf(other.severity));
  return (
    <section className="stack tight">
      <h3>
        {findings.length} {findings.length === 1 ? "finding" : "findings"}
      </h3>
      <ul className="stack tight">
        {sorted.map(({ rule, severity, message, file, line }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a run's findings never change
          <li key={index} className="finding">
            <div className="row wrap">
              <SeverityBadge severity={severity} />
              <span className="tiny faint mono">{rule}</span>
            </div>
            <div className="small finding-text">{plainText(message)}</div>
            {file !== null && (
              <Link
                to="/builds/$id/changes"
                params={{ id: buildId }}
                search={{ wave }}
                hash={file}
                className="mono tiny"
              >
                {file}
                {line !== null && `:${line}`}
              </Link>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
