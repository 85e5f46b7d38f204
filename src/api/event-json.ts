/** An event as it is stored. */
export interface RecordedEvent {
  readonly eventId: string;
  readonly name: string;
  readonly createdAt: Date;
  readonly data: Record<string, unknown>;
}

/** An event as `--json` and the streams show it. The plan of a request is at /builds/{id}/plan. */
export function eventJson({ eventId, name, createdAt, data }: RecordedEvent): Record<string, unknown> {
  const { plan: _, ...rest } = data;
  return { type: name, at: createdAt, eventId, ...rest };
}
