import type { Contact } from "./server.ts";

/** How long it is since somebody spoke to the guest, and since there was more than a heartbeat. */
export interface ContactLog extends Contact {
  silentMs(): number;
  /** 0 while something is being done. */
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
