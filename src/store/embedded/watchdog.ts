/** Advisory locks in an embedded cluster's "postgres" database, where nothing else takes any. */
export const lockKeys = { users: 7_410_001, watchdog: 7_410_002, setup: 7_410_003 } as const;

export interface RunningPostmaster {
  readonly pid: number;
  /** Has only harmless characters. */
  readonly socketDir: string;
}

/**
 * Returns a statement that makes the server end its sessions and itself. It starts a shell as the
 * server's user, because in a container without CAP_KILL we could not signal the server. The shell
 * waits until the socket is gone and removes its folder. Use it only while holding the lock `users`
 * exclusively.
 */
export function stopSql({ pid, socketDir }: RunningPostmaster): string {
  const waiting = `n=0; while [ -e ${socketDir}/.s.PGSQL.5432.lock ] && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.1; done`;
  // The shell closes descriptor 3, so that it does not keep the lock file locked. It ignores the
  // signal that the server sends to its sessions' process groups. So does the shell that starts it,
  // which may not have exited yet and would otherwise count as a failed program.
  const command = `trap "" TERM; (kill -INT ${pid}; ${waiting}; rmdir ${socketDir}) </dev/null >/dev/null 2>&1 3>&- &`;
  return `copy (select where false) to program '${command}'`;
}

/**
 * Returns the watchdog: a loop inside the server that stops it once no session has held the lock
 * `users` for the given time. As a session of the server it needs no program, pid file or client,
 * and cannot outlive the server. Each round is its own transaction, so that it does not delay
 * vacuum. It raises one notice when it starts.
 */
export function watchdogSql(server: RunningPostmaster, orphanTimeoutMs: number): string {
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
