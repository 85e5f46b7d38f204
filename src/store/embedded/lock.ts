import { runProgram } from "./run-program.ts";

/**
 * Tries to lock an open file with flock(2). The lock belongs to the open file and lasts until every
 * copy of the descriptor is closed, including those of children, so kill -9 cannot leave a stale
 * lock. "unsupported": there is no flock(1) (macOS), and Postgres's own guards against a second
 * server have to be enough.
 */
export async function tryLock(descriptor: number): Promise<"held" | "busy" | "unsupported"> {
  const { code, spawnError } = await runProgram({ argv: ["flock", "-x", "-n", "-E", "75", "3"], descriptor });
  if (code === 0) return "held";
  // If flock could not run for lack of processes or descriptors, it is not "unsupported".
  const untried = code === null && spawnError?.code !== "ENOENT";
  return code === 75 || untried ? "busy" : "unsupported";
}
