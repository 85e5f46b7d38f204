import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The session that a task's earlier attempt left in the agent's home. */
export interface EarlierSession {
  readonly id: string;
  /** The tree it worked in; null if unknown. */
  readonly cwd: string | null;
}

const sessionFile = (home: string): string => join(home, "wavesmith-session");

/** Returns the session to continue; null if there is none. */
export function findEarlierSession(home: string): EarlierSession | null {
  if (!existsSync(sessionFile(home))) return null;
  const [id = "", cwd = null] = readFileSync(sessionFile(home), "utf8").split("\n");
  return id === "" ? null : { id, cwd };
}

export const rememberSession = (home: string, { id, cwd }: EarlierSession): void =>
  writeFileSync(sessionFile(home), `${id}\n${cwd}`, { mode: 0o600 });

/** Makes the next attempt open a new session. */
export const forgetSession = (home: string): void => rmSync(sessionFile(home), { force: true });
