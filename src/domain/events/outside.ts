import { z } from "zod";

// Input from forges and CI systems.

/** How a check ended. Those that only say "nothing to do" count as passed. */
export const checkConclusionSchema = z.enum(["passed", "failed", "cancelled"]);
export type CheckConclusion = z.infer<typeof checkConclusionSchema>;

/** The verbs of a comment that begins with `/wavesmith`. */
export const commandVerbs = ["build", "retry", "approve", "reject", "cancel", "tell", "help"] as const;
export type CommandVerb = (typeof commandVerbs)[number];
