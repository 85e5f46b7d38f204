import type { BuildEventFacts, BuildEventName } from "../domain/events.ts";
import type { BuildRow, GateRunRow, OutboxRow, StoreTransaction, WaveRow } from "../store/port.ts";
import { eventId } from "./names.ts";

/** Emits an event of a build; its data carry tenant, project and build. */
export const emitFor = <Name extends BuildEventName>(
  transaction: StoreTransaction,
  build: BuildRow,
  name: Name,
  subject: string,
  epoch: number,
  facts: BuildEventFacts<Name>,
): Promise<void> => emitData(transaction, build, { name, id: eventId(name, subject, epoch), data: facts });

/** Emits an event of a build again, with the data it had, under the id of another epoch. */
export const emitAgain = (
  transaction: StoreTransaction,
  build: BuildRow,
  { name, data }: OutboxRow,
  subject: string,
  epoch: number,
): Promise<void> => emitData(transaction, build, { name, id: eventId(name, subject, epoch), data });

async function emitData(
  transaction: StoreTransaction,
  build: BuildRow,
  { name, id, data }: { name: string; id: string; data: object },
): Promise<void> {
  const { tenantId, projectId, id: buildId, requestedBy } = build;
  const who = requestedBy === null ? {} : { requestedBy };
  await transaction.emit({ name, id, projectId, buildId, data: { tenantId, projectId, buildId, ...who, ...data } });
}

/** Emits that a build failed, and why, or that it was cancelled. */
export const emitEnd = (
  transaction: StoreTransaction,
  build: BuildRow,
  status: "failed" | "cancelled",
  reason: string,
): Promise<void> =>
  status === "failed"
    ? emitFor(transaction, build, "project/build.failed", build.id, build.epoch, { reason })
    : emitFor(transaction, build, "project/build.cancelled", build.id, build.epoch, {});

/** The facts of a gate run that its events carry; `fence` is that of the request. */
export const gateRunFacts = ({ id, gate, sha }: GateRunRow, { number }: WaveRow, fence: number) => ({
  waveNumber: number,
  gateRunId: id,
  gate,
  sha,
  fence,
});
