import type { Ports } from "../port.ts";
import type { AttemptRef } from "./attempt.ts";
import { keepAttempt } from "./keep-attempt.ts";
import { settleAttempt } from "./settle-attempt.ts";

/** Keeps the attempt's work, then settles it, in two commits that can each be repeated. */
export async function finishAttempt(ports: Ports, attemptRef: AttemptRef): Promise<void> {
  await keepAttempt(ports, attemptRef);
  await settleAttempt(ports, attemptRef);
}
