import { resolve } from "node:path";
import { itemAt } from "../../domain/known.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { type Sha, type SourceState, sourceFolderRef } from "../port.ts";
import { assertSha } from "./git.ts";
import { isAncestor, treeOf } from "./history.ts";
import { resolveCommit } from "./refs.ts";
import { commitFolder, findMain, isRepository, type PrepareContext, readSource } from "./source.ts";

/**
 * Compares a source with the project's main. Returns null if the project has no main yet. Moves no
 * ref.
 */
export async function compareSource(
  context: Omit<PrepareContext, "crashPoint">,
  source: Plan["source"],
): Promise<SourceState | null> {
  const { git, gitDir } = context;
  const main = await findMain(git, gitDir);
  if (main === null) return null;
  if (source.kind === "empty" || (source.kind === "repository" && source.commit === null)) {
    return { main, commit: null, relation: "none", commits: 0, isFolder: false };
  }
  const isFolder = source.kind === "path" && !(await isRepository(resolve(source.path)));
  const read = await readSource(context, gitDir, source);
  const commit = isFolder ? await folderCommit(context, main, read) : read;
  const relation = await relationOf(context, main, commit);
  const range = `${main}..${commit}`;
  const commits = relation === "same" ? 0 : Number(await git.text(["rev-list", "--count", range], { gitDir }));
  return { main, commit, relation, commits, isFolder };
}

type Place = Pick<PrepareContext, "git" | "gitDir">;

/** Commits a folder on top of the folder as it was before, so that the two can be merged. */
async function folderCommit({ git, gitDir }: Place, main: Sha, read: Sha): Promise<Sha> {
  const before = (await resolveCommit(git, gitDir, sourceFolderRef)) ?? (await onlyRoot({ git, gitDir }, main));
  if (before === null) return read;
  const tree = await treeOf(git, gitDir, read);
  if (tree === (await treeOf(git, gitDir, before))) return before;
  return commitFolder(git, gitDir, { tree, before });
}

async function onlyRoot({ git, gitDir }: Place, main: Sha): Promise<Sha | null> {
  const roots = (await git.text(["rev-list", "--max-parents=0", main], { gitDir })).split("\n");
  return roots.length === 1 ? assertSha(itemAt(roots, 0)) : null;
}

async function relationOf({ git, gitDir }: Place, main: Sha, commit: Sha): Promise<SourceState["relation"]> {
  if (await isAncestor(git, gitDir, commit, main)) return "same";
  if (await isAncestor(git, gitDir, main, commit)) return "ahead";
  const base = await git.run(["merge-base", main, commit], { gitDir, answers: [0, 1] });
  return base.exitCode === 0 ? "diverged" : "unrelated";
}
