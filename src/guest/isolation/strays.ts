// Decides which processes belong to a launch where no namespace says so.
// Y1. A process belongs to a launch by its mark in the environment (lost by `exec` with another
// environment); by its session, or the session of another member; or by a parent that belongs, now
// or at the last look.
// Y2. Where the guest has its pid namespace to itself, some launch must have started every process
// that init adopted and that belongs to no launch. It is assigned to the launch that ends now,
// unless a launch that began before the process is still running; then it waits for that one. What
// remains: a process that dropped its mark, created its own session and was adopted between two
// looks escapes where Y2 does not apply, and otherwise lives until the launches that began before
// it have ended.

/** One process, as seen in one look at /proc. */
export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  /** When it started, in the kernel's ticks; with the pid this identifies a process forever. */
  readonly ticks: number;
  /** Returns its mark; read only on demand, because it is in another file. */
  readonly mark: () => string | null;
}

/** The facts known about a launch. */
export interface LaunchFacts {
  readonly isMark: (mark: string) => boolean;
  /** Its first process; null when another guest started it. */
  readonly first: { readonly pid: number; readonly ticks: number } | null;
  /** The processes that belonged to it at the last look (`nameOf`). */
  readonly known: Set<string>;
}

/** Returns a name that identifies a process forever. */
export function nameOf({ pid, ticks }: Pick<ProcessFacts, "pid" | "ticks">): string {
  return `${pid}:${ticks}`;
}

/** Finds the processes of a launch (Y1). */
export function membersOf(launch: LaunchFacts, table: readonly ProcessFacts[]): ProcessFacts[] {
  const { first } = launch;
  // No process of a launch is older than its first one.
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
      // The sessions of init and of processes from outside belong to no launch.
      if (session > 1) sessions.add(session);
    }
    others = others.filter((one) => !parents.has(one.pid));
  }
  return members;
}

/**
 * Finds processes that an ending launch left to init without any sign of their origin (Y2). `own`
 * holds the guest and its ancestors.
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
