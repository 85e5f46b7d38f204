import { WavesmithError } from "../../domain/errors.ts";
import { ownBranches } from "../../domain/forge.ts";
import type { PlaceAtForge } from "./at-forge.ts";

/** The branch that somebody means who asks for a build in an issue or a pull request. */
export interface AskedBranch {
  readonly branch: string;
  readonly sha: string;
  /** The pull request to whose branch the work goes; null: it was asked for in an issue. */
  readonly request: number | null;
}

/**
 * Finds the branch: an open pull request's own, or for an issue the default one; null if the
 * repository is empty. Fails with `conflict` where we cannot deliver.
 */
export async function findAskedBranch(
  { forge, repository }: PlaceAtForge,
  number: number,
): Promise<AskedBranch | null> {
  const offered = await forge.findOffered(repository, number);
  if (offered === null) {
    const { defaultBranch: branch } = repository;
    const head = await forge.readBranch(repository, branch);
    return head === null ? null : { branch, sha: head.sha, request: null };
  }
  const { branch, sha, isOpen } = offered;
  if (!isOpen)
    throw new WavesmithError("conflict", "this request is closed", { remedy: "Reopen it, or open an issue." });
  if (branch === null)
    throw new WavesmithError(
      "conflict",
      "the branch of this request is in another repository, to which we do not push",
      {
        remedy: `Push it to a branch of ${repository.name} and open a request from there.`,
      },
    );
  if (branch.startsWith(ownBranches))
    throw new WavesmithError("conflict", "this request is a build's own", {
      remedy: "Comment on its lines or request changes, and the fixer gets that; or write `/wavesmith retry`.",
    });
  return { branch, sha, request: number };
}
