import { stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { syncFolder } from "./durable.ts";
import { assertSha, type Git, shaPattern } from "./git.ts";
import type { Sha } from "./port.ts";

/** What git calls a null id: "this ref must not exist". */
const absent = "0".repeat(40);

/**
 * A git killed in the middle of a ref's update leaves its lock behind; nothing holds one for so
 * long.
 */
const staleLockMs = 60_000;

/** Whether git takes this as a full ref name (git-check-ref-format(1)). */
export function isRefName(ref: string): boolean {
  if (!/^refs\/[^/]+\/./.test(ref) || ref.endsWith("/") || ref.endsWith(".") || ref.length > 1024) return false;
  if (/[\x00-\x20\x7f~^:?*[\\]/.test(ref) || ref.includes("..") || ref.includes("@{")) return false;
  return ref.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));
}

/** The commit a ref, SHA or other revision names; null when there is none. */
export async function resolveCommit(git: Git, gitDir: string, revision: string): Promise<Sha | null> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`];
  const result = await git.run(args, { gitDir, answers: [0, 1, 128] });
  const sha = result.stdout.toString("utf8").trim();
  return result.exitCode === 0 && shaPattern.test(sha) ? sha : null;
}

interface Move {
  readonly ref: string;
  readonly to: Sha;
  readonly expected: Sha | null;
}

/**
 * Compare-and-swap of a ref; `expected: null` means "must be absent". True also when the ref is at
 * `to` already. When it is true, the ref and all that it leads to outlive a power cut.
 */
export async function moveRef(git: Git, gitDir: string, move: Move): Promise<boolean> {
  const isThere = await swapRef(git, gitDir, move);
  // git waits for the file, not for its name. Everything before it is in the same journal, objects'
  // names included.
  if (isThere) await syncFolder(dirname(join(gitDir, move.ref)));
  return isThere;
}

async function swapRef(git: Git, gitDir: string, move: Move): Promise<boolean> {
  const { ref, to, expected } = move;
  if (!isRefName(ref)) throw new WavesmithError("usage", `git takes no ref named ${JSON.stringify(ref)}`);
  if (
    await moveQuickly(git, gitDir, {
      ref,
      to: assertSha(to),
      expected: expected === null ? absent : assertSha(expected),
    })
  )
    return true;
  const args = ["update-ref", "--no-deref", ref, assertSha(to), expected === null ? absent : assertSha(expected)];
  const result = await git.run(args, { gitDir, answers: [0, 1, 128] });
  if (result.exitCode === 0) return true;
  const now = await resolveCommit(git, gitDir, ref);
  if (now === to) return true;
  if (now !== expected) return false;
  if (await removeStaleLock(join(gitDir, `${ref}.lock`))) return swapRef(git, gitDir, move);
  throw new WavesmithError("git", `ref ${ref} in ${gitDir} could not be moved to ${to}: ${result.stderr.trim()}`);
}

/**
 * By a git that is at hand for it. False when it did not: then why is asked of one that says it
 * with its exit code.
 */
function moveQuickly(git: Git, gitDir: string, move: { ref: string; to: Sha; expected: Sha }): Promise<boolean> {
  const question = `start\nupdate ${move.ref} ${move.to} ${move.expected}\ncommit\n`;
  return git
    .converse(gitDir, ["update-ref", "--no-deref", "--stdin"])
    .ask(question, "commit: ok\n")
    .then(
      () => true,
      () => false,
    );
}

async function removeStaleLock(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null); // absent: the lock was not what was in the way
  if (found === null || Date.now() - found.mtimeMs < staleLockMs) return false;
  await unlink(path);
  return true;
}
