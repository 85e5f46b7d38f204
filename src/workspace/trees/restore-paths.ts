import { WavesmithError } from "../../domain/errors.ts";
import { listFiles } from "../authority/history.ts";
import type { RestoreRequest } from "../port.ts";
import { joinZ, type KeepContext, keepPlaceOf, listOwn, runStep, type SandboxWork } from "./keep.ts";
import { checkOutScript, listFoldersScript, removeEmptyScript, removeScript } from "./keep-scripts.ts";
import { ownPaths } from "./own-paths.ts";

/** Restores the caller's own paths of a tree to the base; see the port. */
export async function restorePaths(
  { authority, base }: Omit<KeepContext, "crashPoint">,
  request: RestoreRequest,
): Promise<string[]> {
  const own = ownPaths(request.only);
  const work: SandboxWork = { authority, base, ...keepPlaceOf(request.treePath), request, env: {}, own };
  const ownChanges = await listOwn(work).catch((error: unknown) => {
    if (error instanceof WavesmithError && error.code === "not-found") return null;
    throw error;
  });
  if (ownChanges === null) return [];
  const { files, repositories } = ownChanges;
  const baseFiles = new Set((await listFiles(authority.git, authority.gitDir, request.base)).map((file) => file.path));
  const addedPaths = [...files.filter((path) => !baseFiles.has(path)), ...repositories];
  const changed = files.filter((path) => baseFiles.has(path));
  const step = async (script: string, paths: readonly string[], args: readonly string[] = []) => {
    if (paths.length > 0) await runStep(work, script, args, joinZ(paths));
  };
  await step(removeScript, addedPaths);
  // List the folders, because a killed earlier call may already have removed their files.
  await step(removeEmptyScript, (await listEmptyFolders(work)).filter(own.hasFolder));
  await step(checkOutScript, changed, [request.base]);
  return [...changed, ...addedPaths];
}

async function listEmptyFolders(work: SandboxWork): Promise<string[]> {
  const facts = await runStep(work, listFoldersScript, [], "");
  return facts.flatMap(([key, path]) => (key === "folder" ? [path.replace(/^\.\//, "").replace(/\/$/, "")] : []));
}
