/** One tenant's share of the tasks that may run at once. */
export interface SlotUse {
  readonly running: number;
  /** Its own limit; null: none. */
  readonly limit: number | null;
  /** Whether it has tasks that wait for a slot. */
  readonly waits: boolean;
}

/**
 * Returns how many more tasks a tenant may start (max-min fairness): it may take every free slot
 * that no waiting tenant needs to reach its fair share. `total` null: only its own limit counts.
 */
export function slotsFor(tenantId: string, uses: ReadonlyMap<string, SlotUse>, total: number | null): number {
  const own = uses.get(tenantId);
  const ownRoom = own?.limit == null ? Number.POSITIVE_INFINITY : own.limit - own.running;
  if (total === null) return Math.max(0, ownRoom);
  const running = [...uses.values()].reduce((sum, use) => sum + use.running, 0);
  const free = Math.max(0, total - running);
  const waiting = [...uses].filter(([id, use]) => use.waits && (id === tenantId || room(use) > 0));
  const share = fairShare(
    waiting.map(([, use]) => use),
    free,
  );
  const reserved = waiting
    .filter(([id]) => id !== tenantId)
    .reduce((sum, [, use]) => sum + Math.max(0, Math.min(share, use.limit ?? share) - use.running), 0);
  return Math.max(0, Math.min(ownRoom, free - reserved));
}

const room = ({ limit, running }: SlotUse): number => (limit === null ? Number.POSITIVE_INFINITY : limit - running);

/** The number of running tasks up to which waiting tenants are filled, the poorest first. */
function fairShare(waiting: readonly SlotUse[], free: number): number {
  let sharing = waiting;
  for (;;) {
    const slots = sharing.reduce((sum, use) => sum + use.running, free);
    const share = Math.floor(slots / Math.max(1, sharing.length));
    const below = sharing.filter((use) => use.running <= share);
    if (below.length === sharing.length) return share;
    sharing = below;
  }
}
