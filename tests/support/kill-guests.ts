import { readdirSync, readFileSync } from "node:fs";

/**
 * Kills the guest of a project's sandbox, found by the mark in its environment, if there is one.
 */
export function killGuests(projectId: string): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      const isGuest = command.includes("guest.mjs\0--root") && !command.includes("bwrap");
      if (!isGuest || !readFileSync(`/proc/${pid}/environ`, "utf8").includes(`:${projectId}:`)) continue;
      process.kill(Number(pid), "SIGKILL");
    } catch {
      // It has just ended, or we may not look into it.
    }
  }
}
