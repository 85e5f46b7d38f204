// Which processes belong to a launch where no namespace says so.
// Y1. A process belongs to a launch by its mark in the environment, which `exec` with an
// environment of its own takes off; by its session, or that of another one that belongs; or by a
// parent that belongs, now or when last looked.
// Y2. Where the guest has its pid namespace to itself, a process that init has adopted and that
// belongs to no launch was made by some launch: by the one that ends now, unless another one runs
// that had begun before it. Then it has to wait for that one. What is left: a process that took off
// its mark, made a session of its own and was adopted between two looks gets away where Y2 does not
// hold, and otherwise lives until the launches have ended that had begun before it.

/** One process, as one look at /proc has it. */
export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  /** When it started, in the kernel's ticks: with the pid it names one process for ever. */
  readonly ticks: number;
  /** Its mark; read only when asked for, since it is in a file of its own. */
  readonly mark: () => string | null;
}

/** What is known of a launch. */
export interface LaunchFacts {
  readonly isMark: (mark: string) => boolean;
  /** Its first process; null when that was another guest's. */
  readonly first: { readonly pid: number; readonly ticks: number } | null;
  /** Processes that belonged to it when last looked (`nameOf`). */
  readonly known: Set<string>;
}

/** The name of one process for ever. */
export function nameOf({ pid, ticks }: Pick<ProcessFacts, "pid" | "ticks">): string {
  return `${pid}:${ticks}`;
}

/** The processes of a launch (Y1). */
export function membersOf(launch: LaunchFacts, table: readonly ProcessFacts[]): ProcessFacts[] {
  const { first } = launch;
  // Nothing of a launch is older than its first process.
  let others = first === null ? [...table] : table.filter(({ ticks }) => ticks >= first.ticks);
  const sessions = new Set(first === null ? [] : [first.pid]);
  const parents = new Set<number>();
  const members: ProcessFacts[] = [];
  const belongs = (one: ProcessFacts): boolean => {
    if (sessions.has(one.session) || parents.has(one.parent) || launch.known.has(nameOf(one))) return true;
    const mark = one.mark();
    return mark !== null && launch.isMark(mark);
  };
  for (let found: ProcessFacts[] = others.filter(belongs); found.length > 0; found = others.filter(belongs)) {
    members.push(...found);
    for (const { pid, session } of found) {
      parents.add(pid);
      // The sessions of init, and of what came in from outside, are nobody's own.
      if (session > 1) sessions.add(session);
    }
    others = others.filter((one) => !parents.has(one.pid));
  }
  return members;
}

/**
 * What a launch that ends has left to init without a sign of whose it is (Y2). `own` are the guest
 * and those above it.
 */
export function adoptedOf(
  launch: LaunchFacts,
  running: readonly LaunchFacts[],
  { table, own }: { table: readonly ProcessFacts[]; own: ReadonlySet<number> },
): ProcessFacts[] {
  const since = launch.first?.ticks ?? 0;
  const owned = new Set(running.flatMap((one) => membersOf(one, table)).map(({ pid }) => pid));
  const isLate = (ticks: number): boolean => running.every(({ first }) => first !== null && first.ticks > ticks);
  const adopted = table.filter(
    ({ pid, parent, ticks }) => parent === 1 && !own.has(pid) && !owned.has(pid) && ticks >= since && isLate(ticks),
  );
  const first = { isMark: () => false, first: null, known: new Set(adopted.map(nameOf)) };
  return adopted.length === 0 ? [] : membersOf(first, table).filter(({ pid }) => !own.has(pid) && !owned.has(pid));
}
