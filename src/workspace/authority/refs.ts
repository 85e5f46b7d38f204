import { stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { isRefName } from "../../domain/refs/ref-name.ts";
import type { Sha } from "../port.ts";
import { syncFolder } from "./durable.ts";
import { assertSha, type Git, shaPattern } from "./git.ts";
import { findObject } from "./objects.ts";

/** Git's null id, which means that the ref must not exist. */
const absent = "0".repeat(40);

/** Nothing holds a ref's lock this long, so an older lock was left behind by a killed git. */
const staleLockMs = 60_000;

/** Returns the commit that a ref, SHA or other revision names, or null if there is none. */
export async function resolveCommit(git: Git, gitDir: string, revision: string): Promise<Sha | null> {
  const name = `${revision}^{commit}`;
  try {
    return (await findObject(git, gitDir, name))?.sha ?? null;
  } catch {
    // A new process, whose exit code tells a missing repository from a failure.
    const result = await git.run(["rev-parse", "--verify", "--quiet", "--end-of-options", name], {
      gitDir,
      answers: [0, 1, 128],
    });
    const sha = result.stdout.toString("utf8").trim();
    return result.exitCode === 0 && shaPattern.test(sha) ? sha : null;
  }
}

interface Move {
  readonly ref: string;
  readonly to: Sha;
  readonly expected: Sha | null;
}

/**
 * Moves a ref by compare-and-swap; `expected: null` means that it must be absent. Returns true also
 * if the ref already is at `to`. After true, the ref and the objects it reaches survive a power
 * cut.
 */
export async function moveRef(git: Git, gitDir: string, move: Move): Promise<boolean> {
  const isThere = await swapRef(git, gitDir, move);
  // Git flushes the file but not its name. The flush also covers earlier entries of the file
  // system's journal, such as the names of objects.
  if (isThere) await syncFolder(dirname(join(gitDir, move.ref)));
  return isThere;
}

async function swapRef(git: Git, gitDir: string, move: Move): Promise<boolean> {
  const { ref, to, expected } = move;
  if (!isRefName(ref)) throw new WavesmithError("usage", `not a valid ref name: ${JSON.stringify(ref)}`);
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
 * Moves a ref with the git process that is already running. If that fails, the caller tries again
 * with a new one, whose exit code gives the reason.
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
  const lock = await stat(path).catch(() => null); // absent: the failure had another cause
  if (lock === null || Date.now() - lock.mtimeMs < staleLockMs) return false;
  await unlink(path);
  return true;
}
