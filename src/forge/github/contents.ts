import { type CommitOrigin, type FileAtForge, type ForgePlace, type OfferedBranch, tooLarge } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { placeOf, unlessMissing } from "./repositories.ts";

/** GitHub sends no larger file this way. */
const mostBytes = 1024 * 1024;

/** See `Forge.readFile`. */
export async function readFile(
  { request }: GitHubClient,
  { repository, sha, path, maxBytes }: FileAtForge,
): Promise<string | null> {
  const found = await unlessMissing(
    request("GET /repos/{owner}/{repo}/contents/{path}", { ...placeOf(repository.name), path, ref: sha }),
  );
  // A folder is a list.
  if (found === null || Array.isArray(found.data) || found.data.type !== "file") return null;
  const { size, content } = found.data;
  if (size > Math.min(maxBytes, mostBytes)) throw tooLarge(path, Math.min(maxBytes, mostBytes));
  return Buffer.from(content, "base64").toString("utf8");
}

/** See `Forge.readCommit`. */
export async function readCommit({ request }: GitHubClient, { name }: ForgePlace, sha: string): Promise<CommitOrigin> {
  const place = placeOf(name);
  const { data } = await request("GET /repos/{owner}/{repo}/git/commits/{commit_sha}", { ...place, commit_sha: sha });
  const requests = await request("GET /repos/{owner}/{repo}/commits/{commit_sha}/pulls", {
    ...{ ...place, commit_sha: sha, per_page: 100 },
  });
  const own = requests.data.filter(({ head }) => head.repo?.full_name.toLowerCase() === name.toLowerCase());
  return { parents: data.parents.map((parent) => parent.sha), requestBranches: own.map(({ head }) => head.ref) };
}

/** See `Forge.findOffered`. */
export async function findOffered(
  { request }: GitHubClient,
  { name }: ForgePlace,
  number: number,
): Promise<OfferedBranch | null> {
  const found = await unlessMissing(
    request("GET /repos/{owner}/{repo}/pulls/{pull_number}", { ...placeOf(name), pull_number: number }),
  );
  if (found === null) return null;
  const { head, state } = found.data;
  const isHere = head.repo?.full_name.toLowerCase() === name.toLowerCase();
  return { branch: isHere ? head.ref : null, sha: head.sha, isOpen: state === "open" };
}
