/** An event of a subject, as it is sent. */
export interface EncodedEvent {
  readonly seq: number;
  readonly bytes: Uint8Array;
}

/** The last events of a subject, each after the one before. */
export interface EventWindow {
  /** Forgets everything and continues after this position; null is before the first event. */
  reset(start: number | null): void;
  /** Forgets all. */
  clear(): void;
  /** Returns the position after the last event; undefined if the window is clear. */
  end(): number | null | undefined;
  add(events: readonly EncodedEvent[]): void;
  /** Returns the next events after a position; null if the window does not have it. */
  after(position: number | null): NextEvents | null;
}

/** The events after a position. */
export interface NextEvents {
  readonly bytes: Uint8Array;
  /** The id of the last event in `bytes`, or the position before if there is none. */
  readonly after: number | null;
  /** Whether more can be expected at once. */
  readonly hasMore: boolean;
}

const mostKept = 1_000;
const mostKeptBytes = 1024 * 1024;
const mostAtOnce = 200;
const nothing = new Uint8Array();

export function createEventWindow(): EventWindow {
  /** The position before the first event that is kept. */
  let start: number | null | undefined;
  let kept: readonly EncodedEvent[] = [];
  /** For each position the number of kept events up to it. */
  let counts = new Map<number | null, number>();
  /** The last answer, because most followers are at the same position. */
  let last: { readonly count: number; readonly next: NextEvents } | null = null;
  const keep = (from: number | null | undefined, events: readonly EncodedEvent[]): void => {
    start = from;
    kept = events;
    last = null;
    counts = new Map(events.map(({ seq }, index) => [seq, index + 1]));
    if (start !== undefined) counts.set(start, 0);
  };
  return {
    reset: (position) => keep(position, []),
    clear: () => keep(undefined, []),
    end: () => kept.at(-1)?.seq ?? start,
    add(events) {
      if (events.length === 0) return;
      const all = [...kept, ...events];
      const first = firstKept(all);
      keep(all[first - 1]?.seq ?? start, all.slice(first));
    },
    after(position) {
      const count = counts.get(position);
      if (count === undefined) return null;
      if (last?.count === count) return last.next;
      // Followers ask again as soon as they have been given the last part, in between the others.
      if (count === kept.length) return { bytes: nothing, after: position, hasMore: false };
      const part = kept.slice(count, count + mostAtOnce);
      const bytes = Buffer.concat(part.map((event) => event.bytes));
      const hasMore = count + part.length < kept.length;
      last = { count, next: { bytes, after: part.at(-1)?.seq ?? position, hasMore } };
      return last.next;
    },
  };
}

/** Returns the index of the first event that fits. */
function firstKept(events: readonly EncodedEvent[]): number {
  let bytes = 0;
  for (let index = events.length - 1; index >= 0; index -= 1) {
    bytes += events[index]?.bytes.length ?? 0;
    if (bytes > mostKeptBytes || events.length - index > mostKept) return index + 1;
  }
  return 0;
}
