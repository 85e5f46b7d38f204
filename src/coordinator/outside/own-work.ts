import { ownBranches } from "../../domain/forge.ts";
import type { Ports } from "../port.ts";
import type { PlaceAtForge } from "./at-forge.ts";

// OC1. What we put on a forge starts no build, or builds would start each other for ever: not our
// branches, not our commits, not a person's merge of our request, and nothing by our App's account.
// A token's account is a person's as well, so what it pushed is judged by the commit alone.

interface PushedCommit {
  readonly branch: string;
  readonly sha: string;
  /** The account that pushed it; null if that is unknown. */
  readonly by: string | null;
}

/** Whether we put this commit on the branch (OC1). */
export async function isOwnWork(
  { store }: Pick<Ports, "store">,
  { forge, repository }: PlaceAtForge,
  { branch, sha, by }: PushedCommit,
): Promise<boolean> {
  if (branch.startsWith(ownBranches) || (by !== null && (await forge.isOurs(by)))) return true;
  const isHead = async (commit: string): Promise<boolean> => {
    const wave = await store.waves.find({ headSha: commit });
    // A wave that has changed nothing has the commit that its build started from.
    return wave !== null && (await store.builds.get({ id: wave.buildId })).baseSha !== commit;
  };
  if ((await isHead(sha)) || (await store.pullRequests.find({ mergeSha: sha })) !== null) return true;
  const begun = await store.builds.pick({ baseSha: sha }, ["id"]);
  const ids = begun.map(({ id }) => id);
  if (ids.length > 0 && (await store.forgeCalls.find({ buildId: ids, step: "base" })) !== null) return true;
  const { parents, requestBranches } = await forge.readCommit(repository, sha);
  if (requestBranches.some((from) => from.startsWith(ownBranches))) return true;
  for (const merged of parents.slice(1)) if (await isHead(merged)) return true;
  return false;
}
