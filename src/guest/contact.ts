import type { Contact } from "./server.ts";

/** How long it is since somebody spoke to the guest, and since there was more than a heartbeat. */
export interface ContactLog extends Contact {
  silentMs(): number;
  /** 0 while something is being done. */
  idleMs(): number;
}

export function createContact(): ContactLog {
  let spokenAt = Date.now();
  let workedAt = spokenAt;
  let working = 0;
  const spoken = (isWork: boolean): void => {
    spokenAt = Date.now();
    if (isWork) workedAt = spokenAt;
  };
  return {
    spoken,
    begin: () => {
      working += 1;
      return () => {
        working -= 1;
        workedAt = Date.now();
      };
    },
    silentMs: () => Date.now() - spokenAt,
    idleMs: () => (working > 0 ? 0 : Math.max(0, Date.now() - workedAt)),
  };
}
