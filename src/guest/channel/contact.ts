import type { Contact } from "./server.ts";

/** Records when the guest was last contacted, and when it last did more than answer a heartbeat. */
export interface ContactLog extends Contact {
  silentMs(): number;
  /** Milliseconds since the last work ended; 0 while work is going on. */
  idleMs(): number;
}

export function createContact(): ContactLog {
  let spokenAt = performance.now();
  let workedAt = spokenAt;
  let working = 0;
  const spoken = (isWork: boolean): void => {
    spokenAt = performance.now();
    if (isWork) workedAt = spokenAt;
  };
  return {
    spoken,
    begin: () => {
      working += 1;
      return () => {
        working -= 1;
        workedAt = performance.now();
      };
    },
    silentMs: () => performance.now() - spokenAt,
    idleMs: () => (working > 0 ? 0 : performance.now() - workedAt),
  };
}
