import { existsSync } from "node:fs";
import { join as joinPath, resolve as resolvePath } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { commitFile, findEntry, listFolder, readBlobStream } from "./authority/files.ts";
import { createGit } from "./authority/git.ts";
import {
  changedFilesBetween,
  diffText,
  isAncestor,
  listCommits,
  listFiles,
  listFolders,
  readBlob,
  treeOf,
} from "./authority/history.ts";
import { join } from "./authority/join-branches.ts";
import { moveRef, resolveCommit } from "./authority/refs.ts";
import { prepareAuthority } from "./authority/source.ts";
import { bundleCommit, bundleMain, unpackUpload } from "./authority/source-bundle.ts";
import { compareSource } from "./authority/source-state.ts";
import type { Sha, Workspace } from "./port.ts";
import { excludedFolders, excludeRules } from "./trees/excludes.ts";
import { commitTree } from "./trees/keep.ts";
import { restorePaths } from "./trees/restore-paths.ts";
import { createScratch } from "./trees/scratch.ts";
import { type Authority, closeTree, openTree, syncVolume } from "./trees/volume.ts";

export interface WorkspaceOptions {
  /** The repositories are in `<dataDir>/repositories/<projectId>.git`. */
  readonly dataDir: string;
  /**
   * Only PATH, TMPDIR, proxies, certificates and the ssh agent are read from it. Without it, git is
   * searched in /bin and /usr/bin.
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The environment in which git reaches a URL, with a credential that the project may use. */
  readonly credentials?: (url: string, projectId: ProjectId) => Promise<Readonly<Record<string, string>>>;
  /** Called at named points between steps, so that tests can make them fail. */
  readonly crashPoint?: (name: string) => void | Promise<void>;
}

/** How many bases' facts are cached: enough for the running waves. */
const maxCachedBases = 64;

/** Creates the workspace on this machine's git; the port documents each verb. */
export function createWorkspace(options: WorkspaceOptions): Workspace {
  const dataDir = resolvePath(options.dataDir);
  const folder = joinPath(dataDir, "repositories");
  const git = createGit({ home: joinPath(folder, ".home"), env: options.env ?? {} });
  const scratch = createScratch(joinPath(folder, ".scratch"));
  const crashPoint = async (name: string) => options.crashPoint?.(name);
  const inOrder = createProjectQueue();

  const repositoryPath = (projectId: ProjectId): string => {
    if (/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(projectId)) return joinPath(folder, `${projectId}.git`);
    throw new WavesmithError("usage", `not a project's id: ${JSON.stringify(projectId)}`);
  };
  const authorityOf = (projectId: ProjectId): Authority => ({ git, gitDir: repositoryPath(projectId), scratch });
  const sourceContextOf = (projectId: ProjectId) => ({
    ...{ ...authorityOf(projectId), dataDir },
    credentials: async (url: string) => options.credentials?.(url, projectId) ?? {},
  });
  const baseOf = createBaseFacts();

  return {
    repositoryPath,
    prepare: (projectId, source) => {
      const context = { ...sourceContextOf(projectId), crashPoint };
      return inOrder(projectId, () => prepareAuthority(context, source));
    },
    compareSource: (projectId, source) => inOrder(projectId, () => compareSource(sourceContextOf(projectId), source)),
    bundleMain: (projectId, file) => bundleMain(git, repositoryPath(projectId), file),
    bundleCommit: (projectId, sha, file) => bundleCommit(git, repositoryPath(projectId), { sha, file }),
    unpackUpload: (upload) => unpackUpload(git, scratch, upload),
    resolve: (projectId, ref) => resolveCommit(git, repositoryPath(projectId), ref),
    moveRef: (projectId, ref, to, expected) => moveRef(git, repositoryPath(projectId), { ref, to, expected }),
    isAncestor: (projectId, ancestor, descendant) => isAncestor(git, repositoryPath(projectId), ancestor, descendant),
    listCommits: (projectId, from, to, limit) => listCommits(git, repositoryPath(projectId), { from, to, limit }),
    changedFiles: (projectId, from, to) => changedFilesBetween(git, repositoryPath(projectId), from, to),
    diff: (projectId, from, to, shown = {}) => diffText(git, repositoryPath(projectId), { from, to, ...shown }),
    listFiles: (projectId, sha) => listFiles(git, repositoryPath(projectId), sha),
    readBlob: (projectId, sha, path, limits = {}) => readBlob(git, repositoryPath(projectId), { sha, path, ...limits }),
    findEntry: (projectId, sha, path) => findEntry(git, repositoryPath(projectId), { sha, path }),
    listFolder: (projectId, sha, path) => listFolder(git, repositoryPath(projectId), { sha, path }),
    streamBlob: (projectId, id) => readBlobStream(git, repositoryPath(projectId), id),
    commitFile: (projectId, change) => commitFile(authorityOf(projectId), change),
    syncVolume: (projectId, guest, sha) => inOrder(projectId, () => syncVolume(authorityOf(projectId), guest, sha)),
    openTree: async ({ projectId, guest, treePath, sha, reuse }) => {
      const authority = authorityOf(projectId);
      const rules = excludeRules((await baseOf(authority, sha)).excluded);
      await openTree(authority, guest, { treePath, sha, reuse, rules });
    },
    closeTree,
    keepTree: async (request) => {
      const authority = authorityOf(request.projectId);
      return commitTree({ authority, base: await baseOf(authority, request.base), crashPoint }, request);
    },
    restorePaths: async (request) => {
      const authority = authorityOf(request.projectId);
      return restorePaths({ authority, base: await baseOf(authority, request.base) }, request);
    },
    join: (request) => join(authorityOf(request.projectId), request, crashPoint),
  };
}

/** Runs work for the same project one after the other, and for different projects in parallel. */
function createProjectQueue() {
  const lastWork = new Map<ProjectId, Promise<unknown>>();
  return <T>(projectId: ProjectId, work: () => Promise<T>): Promise<T> => {
    const previous = lastWork.get(projectId) ?? Promise.resolve();
    const result = previous.then(work, work);
    lastWork.set(projectId, result);
    return result;
  };
}

/** Whether a project's authority has a commit; false if there is no authority. */
export const holdsCommit =
  (workspace: Workspace) =>
  async (projectId: ProjectId, sha: string): Promise<boolean> =>
    existsSync(workspace.repositoryPath(projectId)) && (await workspace.resolve(projectId, sha)) !== null;

interface BaseFacts {
  readonly tree: Sha;
  readonly excluded: readonly string[];
}

/** Caches the facts that every tree of a base needs, so that git is asked once per base. */
function createBaseFacts() {
  const factsByBase = new Map<Sha, BaseFacts>();
  return async (authority: Authority, sha: Sha): Promise<BaseFacts> => {
    const cached = factsByBase.get(sha);
    if (cached !== undefined) return cached;
    const tree = await treeOf(authority.git, authority.gitDir, sha);
    const excluded = excludedFolders(await listFolders(authority.git, authority.gitDir, sha));
    factsByBase.set(sha, { tree, excluded });
    const oldest = factsByBase.keys().next().value;
    if (factsByBase.size > maxCachedBases && oldest !== undefined) factsByBase.delete(oldest);
    return { tree, excluded };
  };
}
