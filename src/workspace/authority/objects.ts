import { randomBytes } from "node:crypto";
import type { Sha } from "../port.ts";
import type { Git } from "./git.ts";

/** Returns a random marker, which no path or file can contain. */
export const endMark = (): string => `~${randomBytes(12).toString("hex")}`;

/** Runs one command of `cat-file --batch-command`. */
export function askObject(git: Git, gitDir: string, command: string): Promise<Buffer> {
  const end = endMark();
  return git
    .converse(gitDir, ["cat-file", "--batch-command", "-z"])
    .ask(`${command}\0info ${end}\0`, `${end} missing\n`);
}

interface FoundObject {
  readonly sha: Sha;
  readonly type: string;
  readonly sizeBytes: number;
}

/**
 * Returns the object with a name such as `main^{commit}` or `<sha>:<path>`; null if there is none.
 */
export async function findObject(git: Git, gitDir: string, name: string): Promise<FoundObject | null> {
  if (name.includes("\0")) return null;
  const answer = (await askObject(git, gitDir, `info ${name}`)).toString("latin1");
  const [, sha, type, size] = /^([0-9a-f]{40}) (\w+) (\d+)\n$/.exec(answer) ?? [];
  return sha === undefined || type === undefined ? null : { sha, type, sizeBytes: Number(size) };
}
