import { WavesmithError } from "../domain/errors.ts";
import { isRefName } from "../domain/refs/ref-name.ts";
import { shellWord } from "../domain/shell-word.ts";
import { commitAs, squash } from "./own-commits.ts";
import type { OwnGit } from "./own-git.ts";
import { commitOf, type OwnRepository } from "./own-repository.ts";

// OB1. Only the named branch moves, by compare-and-swap; a branch that is checked out never does.
// OB2. A branch is moved when nothing on it is lost: it is new, it is part of the result, or it is
// where we put it last, which the authority remembers under `delivered`.
// OB3. The same result with the same options gives the same commit, so delivering again changes
// nothing.

export interface DeliveryRequest {
  readonly repository: OwnRepository;
  /** The path of the authority. */
  readonly authority: string;
  /** The commit to deliver. */
  readonly result: string;
  readonly branch: string;
  /** One commit instead of the history; its message. */
  readonly squash: string | null;
  /** Makes the person the committer of every commit; authors stay. */
  readonly asMe: boolean;
  /** The date of the commits we make here. */
  readonly date: Date;
}

export interface Delivery {
  readonly root: string;
  readonly branch: string;
  readonly commit: string;
  /** `contained`: the branch had all of it already. */
  readonly outcome: "created" | "moved" | "unchanged" | "contained";
}

/** The commit that we last put on the branch, and the result that it contained. */
const commitRef = (branch: string): string => `refs/wavesmith/delivered/${branch}`;
const resultRef = (branch: string): string => `refs/wavesmith/delivered-result/${branch}`;

/** Puts a result on a branch of a person's repository. Safe to repeat. Fails with `conflict`. */
export async function deliverBranch(request: DeliveryRequest): Promise<Delivery> {
  const { repository, authority, branch, result } = request;
  const { git, root } = repository;
  const ref = `refs/heads/${branch}`;
  if (!isRefName(ref) || branch.startsWith("-")) {
    throw new WavesmithError("usage", `${JSON.stringify(branch)} is not a branch name`, {
      remedy: "--branch wavesmith/NAME",
    });
  }
  await git.run(["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", authority, result]);
  const commit = await commitFor(request);
  const present = await commitOf(git, ref);
  const done = (outcome: Delivery["outcome"], at: string): Delivery => ({ root, branch, commit: at, outcome });
  if (present === commit) {
    await remember(git, request, commit);
    return done("unchanged", commit);
  }
  if (present !== null && (await isAncestor(git, commit, present))) return done("contained", present);
  await refuseCheckedOut(request, ref);
  if (present !== null) await refuseForeign(request, { present, commit });
  await moveBranch(request, { ref, commit, present });
  await remember(git, request, commit);
  return done(present === null ? "created" : "moved", commit);
}

/** Whether we delivered this result last, squashed or not, even if the branch moved since. */
export async function wasDelivered(
  { git }: OwnRepository,
  { authority, branch, result }: Pick<DeliveryRequest, "authority" | "branch" | "result">,
): Promise<boolean> {
  return (await recorded(git, authority, resultRef(branch))) === result;
}

async function commitFor(request: DeliveryRequest): Promise<string> {
  const { repository, result, date } = request;
  if (request.squash !== null) return squash(repository, { result, message: request.squash, date });
  return request.asMe ? commitAs(repository, result) : result;
}

async function isAncestor(git: OwnGit, ancestor: string, descendant: string): Promise<boolean> {
  const { exitCode } = await git.run(["merge-base", "--is-ancestor", ancestor, descendant], { answers: [0, 1] });
  return exitCode === 0;
}

async function refuseCheckedOut({ repository, branch }: DeliveryRequest, ref: string): Promise<void> {
  const listed = await repository.git.text(["worktree", "list", "--porcelain"]);
  const holder = listed.split("\n\n").find((entry) => entry.split("\n").includes(`branch ${ref}`));
  if (holder === undefined || holder.split("\n").includes("bare")) return;
  const folder = /^worktree (.*)$/m.exec(holder)?.[1] ?? repository.root;
  throw new WavesmithError("conflict", `${branch} is checked out in ${folder}, and a checked-out branch is not moved`, {
    remedy: `switch to another branch there (git -C ${shellWord(folder)} switch …), or choose another: --branch NAME`,
  });
}

async function refuseForeign(
  { repository: { git, root }, authority, branch }: DeliveryRequest,
  { present, commit }: { present: string; commit: string },
): Promise<void> {
  if (await isAncestor(git, present, commit)) return;
  if ((await recorded(git, authority, commitRef(branch))) === present) return;
  throw new WavesmithError(
    "conflict",
    `${branch} in ${root} has commits that are not of this project (${present.slice(0, 12)}), so it is not moved`,
    { remedy: `choose another: --branch NAME; or delete it: git branch -D ${shellWord(branch)}` },
  );
}

async function moveBranch(
  { repository: { git, root }, branch }: DeliveryRequest,
  { ref, commit, present }: { ref: string; commit: string; present: string | null },
): Promise<void> {
  const args = ["update-ref", "-m", "wavesmith: deliver", ref, commit, present ?? "0".repeat(40)];
  const moved = await git.run(args, { answers: [0, 1, 128] });
  // Another process may have delivered the same result in this moment.
  if (moved.exitCode === 0 || (await commitOf(git, ref)) === commit) return;
  throw new WavesmithError("conflict", `${branch} in ${root} could not be moved: ${moved.stderr}`, {
    remedy: "try again, or choose another: --branch NAME",
  });
}

async function recorded(git: OwnGit, authority: string, ref: string): Promise<string | null> {
  const listed = await git.text(["ls-remote", authority, ref]);
  return listed === "" ? null : listed.slice(0, 40);
}

async function remember(git: OwnGit, { authority, branch, result }: DeliveryRequest, commit: string): Promise<void> {
  const refs = [`${commit}:${commitRef(branch)}`, `${result}:${resultRef(branch)}`];
  await git.run(["push", "-q", "--force", "--no-verify", authority, ...refs]);
}
