/**
 * Advisory locks in the database "postgres" of an embedded cluster, where nobody else takes any.
 */
export const lockKeys = { users: 7_410_001, watchdog: 7_410_002, setup: 7_410_003 } as const;

export interface RunningServer {
  readonly pid: number;
  /** Made of harmless characters only. */
  readonly socketDir: string;
}

/**
 * A statement that tells the server to end its sessions and itself. It has a shell do so, which
 * runs as the server's user (from a container that lacks CAP_KILL we could not signal it), waits
 * until the socket is gone and removes its folder. Only for one who holds the lock `users`
 * exclusively.
 */
export function stopSql({ pid, socketDir }: RunningServer): string {
  const waiting = `n=0; while [ -e ${socketDir}/.s.PGSQL.5432.lock ] && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.1; done`;
  // Descriptor 3 is the lock file's: this shell is not one of the processes that keep it locked. It
  // ignores the signal that the server sends to the process groups of its sessions; so does the
  // shell that starts it, which may not have exited yet and would then count as a program that
  // failed.
  const command = `trap "" TERM; (kill -INT ${pid}; ${waiting}; rmdir ${socketDir}) </dev/null >/dev/null 2>&1 3>&- &`;
  return `copy (select where false) to program '${command}'`;
}

/**
 * The watchdog: a loop inside the server that stops it once no session has held the lock `users`
 * for the given time. As a session of the server it needs no program, no pid file and no client,
 * and cannot outlive what it watches. Each round is a transaction of its own, so that vacuum is not
 * held up. Says one notice when it has begun.
 */
export function watchdogSql(server: RunningServer, orphanTimeoutMs: number): string {
  const roundMs = Math.max(50, Math.min(5_000, Math.floor(orphanTimeoutMs / 4)));
  return `
do $watch$
declare
  idle_ms bigint := 0;
begin
  raise notice 'watching';
  loop
    if exists (select from pg_locks where locktype = 'advisory' and classid = 0 and objid = ${lockKeys.users}) then
      idle_ms := 0;
    else
      idle_ms := idle_ms + ${roundMs};
    end if;
    if idle_ms > ${orphanTimeoutMs} and pg_try_advisory_lock(${lockKeys.users}) then
      ${stopSql(server)};
      perform pg_sleep(60);
      perform pg_advisory_unlock(${lockKeys.users});
    end if;
    commit;
    perform pg_sleep(${roundMs / 1000});
    commit;
  end loop;
end $watch$`;
}
