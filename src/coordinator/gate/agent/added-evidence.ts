import { WavesmithError } from "../../../domain/errors.ts";
import type { AddedChecks } from "../../../domain/gate/added-checks.ts";
import type { Evidence } from "../../../domain/gate/finding.ts";
import type { GateRunRow } from "../../../store/port.ts";

/** Returns the evidence of a run whose agent was asked for checks. */
export function addedEvidence({ id, evidence }: GateRunRow): Evidence & { readonly added: AddedChecks } {
  if (evidence?.added === undefined) throw new WavesmithError("internal", `no agent was asked in gate run ${id}`);
  return { ...evidence, added: evidence.added };
}
