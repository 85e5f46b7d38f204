import { setTimeout as delay } from "node:timers/promises";

/**
 * Waits between two looks at a build, longer the longer the test has waited, because each look
 * takes processor time from the build.
 */
export const untilNextLook = (waitedMs: number): Promise<void> => delay(Math.min(Math.max(50, waitedMs / 20), 250));
