import { ensureSandbox } from "../../../sandbox-lifecycle/ensure-sandbox.ts";
import type { AttemptRow, BuildRow, GateRunRow } from "../../../store/port.ts";
import { markJobRunning } from "../../../store/queries/jobs.ts";
import { liveFills } from "../../job/setup-cache.ts";
import type { Ports } from "../../port.ts";

export async function liveKeys(
  ports: Ports,
  buildId: string,
  attempts: readonly AttemptRow[],
  gates: readonly GateRunRow[],
): Promise<string[]> {
  const fills = await liveFills(ports, buildId);
  return [
    ...attempts.map((attempt) => attempt.jobKey),
    ...gates.flatMap((run) => run.jobKey ?? []),
    ...fills.map(({ key }) => key),
  ];
}

export async function cancelJobs(
  ports: Ports,
  build: BuildRow,
  keys: readonly string[],
  reason: string,
): Promise<void> {
  const { guest } = await ensureSandbox(ports, build);
  await Promise.all(
    keys.map(async (key) => {
      await guest.cancelJob(key, { reason, graceMs: 3000 });
      await markJobRunning(ports.store, key);
    }),
  );
  ports.wakeWatcher();
}
