import { runProgram } from "./run-program.ts";

/**
 * Tries to lock an open file with flock(2). The lock belongs to the open file, not to the process:
 * it holds until every copy of the descriptor is closed, those of children included, so kill -9
 * cannot leave a stale one behind. "unsupported": no flock(1) here (macOS); Postgres' own guards
 * against a second server must do.
 */
export async function tryLock(descriptor: number): Promise<"held" | "busy" | "unsupported"> {
  const { code, spawnError } = await runProgram({ argv: ["flock", "-x", "-n", "-E", "75", "3"], descriptor });
  if (code === 0) return "held";
  // A flock that could not be tried for want of processes or descriptors must not count as one
  // there is not.
  const untried = code === null && spawnError?.code !== "ENOENT";
  return code === 75 || untried ? "busy" : "unsupported";
}
