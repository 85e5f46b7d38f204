import { liveAttemptStatuses } from "../../domain/status.ts";
import type { AttemptRow, Tables } from "../port.ts";

/** Lists the attempts of a build that are not settled. */
export const liveAttemptsOf = ({ attempts }: Pick<Tables, "attempts">, buildId: string): Promise<AttemptRow[]> =>
  attempts.list({ buildId, status: liveAttemptStatuses });
