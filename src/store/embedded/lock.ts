import { runProgram } from "./run-program.ts";

/**
 * Tries to lock an open file with flock(2). The lock belongs to the open file, not to the process: it holds until
 * every copy of the descriptor is closed, those of children included, so kill -9 cannot leave a stale one behind.
 * "unsupported": no flock(1) here (macOS); Postgres' own guards against a second server must do.
 */
export async function tryLock(descriptor: number): Promise<"held" | "busy" | "unsupported"> {
  const { code } = await runProgram({ argv: ["flock", "-x", "-n", "-E", "75", "3"], descriptor });
  if (code === 0) return "held";
  return code === 75 ? "busy" : "unsupported";
}
