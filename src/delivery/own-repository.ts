import { WavesmithError } from "../domain/errors.ts";
import { createOwnGit, type OwnGit } from "./own-git.ts";

/** A person's repository, as it was when we looked. */
export interface OwnRepository {
  readonly git: OwnGit;
  /** The top of the working tree; the repository itself when it is bare. */
  readonly root: string;
  /** The folder that all of its worktrees share. */
  readonly gitDir: string;
  readonly isBare: boolean;
  /** Null if there is no commit. */
  readonly head: string | null;
  /** The branch that is checked out; null when HEAD is detached. */
  readonly branch: string | null;
  /** The folder we asked about, relative to the root: `packages/api/`, or empty for the root. */
  readonly prefix: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Finds the repository that a folder is in; null when it is in none. Fails with `environment` when
 * git refuses to look at it, such as one that belongs to another user.
 */
export async function findOwnRepository(folder: string, environment: Environment): Promise<OwnRepository | null> {
  const git = createOwnGit(folder, environment);
  const asked = ["--is-bare-repository", "--is-inside-work-tree", "--path-format=absolute", "--git-common-dir"];
  const answer = await git.run(["rev-parse", ...asked], { answers: [0, 128] });
  if (answer.exitCode !== 0) {
    if (/not a git repository/i.test(answer.stderr)) return null;
    throw new WavesmithError("environment", `git refuses the repository of ${folder}: ${answer.stderr}`, {
      remedy: "do what git says there, or write `source: empty` in the plan to begin without the repository",
    });
  }
  const [bare, inside, gitDir = ""] = answer.stdout.toString("utf8").trimEnd().split("\n");
  if (bare !== "true" && inside !== "true") return null; // Inside of a .git folder.
  const isBare = inside !== "true";
  const root = isBare ? gitDir : await git.text(["rev-parse", "--show-toplevel"]);
  const found = createOwnGit(root, environment);
  return {
    git: found,
    root,
    gitDir,
    isBare,
    head: await commitOf(found, "HEAD"),
    branch: (await found.text(["symbolic-ref", "-q", "--short", "HEAD"], { answers: [0, 1, 128] })) || null,
    prefix: isBare ? "" : await git.text(["rev-parse", "--show-prefix"]),
  };
}

/** The commit that a revision names; null when there is none. */
export async function commitOf(git: OwnGit, revision: string): Promise<string | null> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`];
  const { exitCode, stdout } = await git.run(args, { answers: [0, 1, 128] });
  return exitCode === 0 ? stdout.toString("utf8").trim() : null;
}

/**
 * Fails with `unsupported` for a repository that no build can begin from: its history is cut off,
 * or some of its files are in another repository.
 */
export async function refuseUnusable({ git, root, isBare }: OwnRepository): Promise<void> {
  if ((await git.text(["rev-parse", "--is-shallow-repository"])) === "true") {
    throw new WavesmithError("unsupported", `${root} is a shallow clone, whose history is cut off`, {
      remedy: "git fetch --unshallow",
    });
  }
  if (isBare) return; // Without an index; the tree is checked when it is read.
  const listed = await git.text(["ls-files", "-z", "--stage"]);
  const submodule = listed.split("\0").find((line) => line.startsWith("160000 "));
  if (submodule === undefined) return;
  const path = submodule.slice(submodule.indexOf("\t") + 1);
  throw new WavesmithError("unsupported", `${path} in ${root} is a submodule, which is not supported yet`, {
    remedy: "build in the submodule itself, or begin from a copy without it: source: { path: … }",
  });
}
