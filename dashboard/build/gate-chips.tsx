import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { StatusDot } from "../parts/status.tsx";
import { withGate } from "./selection.ts";

const order = ["testing", "critic", "integration"];

/** The latest run of each gate of a wave; a click shows its evidence. */
export function GateChips({ buildId, wave }: { readonly buildId: string; readonly wave: ApiType<"GraphWave"> }) {
  const latest = new Map(wave.work.filter(({ kind }) => kind === "gate").map((run) => [run.label, run]));
  const runs = [...latest.values()].sort((one, other) => order.indexOf(one.label) - order.indexOf(other.label));
  return (
    <span className="row tight gates">
      {runs.map(({ id, label, outcome, status, number }) => (
        <Link
          key={id}
          to="/builds/$id"
          params={{ id: buildId }}
          search={withGate(id)}
          className="chip gate-chip nodrag nopan"
          title={`${label}: ${outcome ?? status}${number > 1 ? `, round ${number}` : ""}`}
        >
          <StatusDot status={outcome ?? status} />
          <span className="clip">{label}</span>
          {number > 1 && <span className="faint">·{number}</span>}
        </Link>
      ))}
    </span>
  );
}
