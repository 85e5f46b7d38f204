/** Every place where a crash is interesting: around each commit and each call out of the engine. */
export const engineCrashPoints = [
  "engine.send.before-commit",
  "engine.send.after-commit",
  "engine.claim.before-commit",
  "engine.claim.after-commit",
  "engine.call.before",
  "engine.call.after",
  "engine.checkpoint.before-commit",
  "engine.checkpoint.after-commit",
  "engine.respond.before-commit",
  "engine.respond.after-commit",
  "engine.adopt.before-commit",
  "engine.adopt.after-commit",
  "engine.cron.before-commit",
  "engine.cron.after-commit",
] as const;

export type EngineCrashPoint = (typeof engineCrashPoints)[number];

/** Called at every crash point; a test kills the process there, or throws. */
export type OnEngineCrashPoint = (name: EngineCrashPoint) => void | Promise<void>;
