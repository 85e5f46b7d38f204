import { type NoticedEvent, noticedEvents, wordsOf } from "../../domain/events/notices.ts";
import { derivedId } from "../../domain/ids.ts";
import type { BuildRow, StoreTransaction } from "../../store/port.ts";

interface EmittedEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The fields of events' data that their texts use. */
type NoticedData = Partial<Record<"role" | "name" | "scheduleId" | "text" | "reason", string>> & {
  readonly waveNumber?: number;
};

const isNoticed = (name: string): name is NoticedEvent => (noticedEvents as readonly string[]).includes(name);

/**
 * Records the notifications of this event for the plan's `notify`, in the event's own transaction,
 * so that they are sent if and only if the event happened, even if we are killed in between (W3).
 */
export async function recordNotices(
  transaction: StoreTransaction,
  build: BuildRow,
  { name, id, data }: EmittedEvent,
): Promise<void> {
  const { notify } = build.plan;
  if (notify.length === 0 || !isNoticed(name)) return;
  const { waveNumber, role, name: scheduleName, scheduleId, text, reason = text } = data as NoticedData;
  const words = wordsOf(name, {
    project: build.plan.name,
    buildId: build.id,
    ...(waveNumber === undefined ? {} : { waveNumber }),
    ...(role === undefined ? {} : { role }),
    ...(scheduleId === undefined ? {} : { scheduleId, name: String(scheduleName) }),
    ...(reason === undefined ? {} : { reason }),
  });
  const { projectId, id: buildId } = build;
  for (const address of new Set(notify)) {
    const row = {
      projectId,
      buildId,
      address,
      event: name,
      data: { ...data },
      ...words,
      nextAt: new Date(0),
    };
    await transaction.notifications.insertIfAbsent({ id: derivedId("notification", id, address), ...row });
  }
}
