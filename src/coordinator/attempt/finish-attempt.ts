import type { Ports } from "../port.ts";
import type { AttemptRefer } from "./attempt.ts";
import { keepAttempt } from "./keep-attempt.ts";
import { settleAttempt } from "./settle-attempt.ts";

/** Keeps the attempt's work, then settles it: two commits, each of which may be done again. */
export async function finishAttempt(ports: Ports, refer: AttemptRefer): Promise<void> {
  await keepAttempt(ports, refer);
  await settleAttempt(ports, refer);
}
