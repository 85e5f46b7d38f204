import { WavesmithError } from "../domain/errors.ts";
import { listFiles } from "./history.ts";
import { type AtWork, joinZ, type KeepContext, listOwn, placeOf, runStep } from "./keep.ts";
import { checkOutScript, listFoldersScript, removeEmptyScript, removeScript } from "./keep-scripts.ts";
import { ownPaths } from "./own-paths.ts";
import type { RestoreRequest } from "./port.ts";

/** Makes one's own paths of a tree as they are at the base; see the port. */
export async function restorePaths(
  { authority, base }: Omit<KeepContext, "crashPoint">,
  request: RestoreRequest,
): Promise<string[]> {
  const own = ownPaths(request.only);
  const work: AtWork = { authority, base, ...placeOf(request.treePath), request, env: {}, own };
  const found = await listOwn(work).catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return null;
    throw error;
  });
  if (found === null) return [];
  const { files, repositories } = found;
  const known = new Set((await listFiles(authority.git, authority.gitDir, request.base)).map((file) => file.path));
  const made = [...files.filter((path) => !known.has(path)), ...repositories];
  const changed = files.filter((path) => known.has(path));
  const step = async (script: string, paths: readonly string[], args: readonly string[] = []) => {
    if (paths.length > 0) await runStep(work, script, args, joinZ(paths));
  };
  await step(removeScript, made);
  // Looked for, so that those are found, too, whose files one that was killed has removed.
  await step(removeEmptyScript, (await foldersLeft(work)).filter(own.hasFolder));
  await step(checkOutScript, changed, [request.base]);
  return [...changed, ...made];
}

async function foldersLeft(work: AtWork): Promise<string[]> {
  const facts = await runStep(work, listFoldersScript, [], "");
  return facts.flatMap(([key, path]) => (key === "folder" ? [path.replace(/^\.\//, "").replace(/\/$/, "")] : []));
}
