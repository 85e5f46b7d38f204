import { liveGateRunStatuses } from "../../domain/status.ts";
import type { GateRunRow, Tables } from "../port.ts";

/** Lists the gate runs of a build that have no verdict. */
export const liveGateRunsOf = ({ gateRuns }: Pick<Tables, "gateRuns">, buildId: string): Promise<GateRunRow[]> =>
  gateRuns.list({ buildId, status: liveGateRunStatuses });
