import { existsSync } from "node:fs";
import { join as joinPath, resolve as resolvePath } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { excludedFolders, excludeRules } from "./excludes.ts";
import { createGit } from "./git.ts";
import { changedFiles, diffText, isAncestor, listFiles, listFolders, readBlob, treeOf } from "./history.ts";
import { join } from "./join.ts";
import { keepTree } from "./keep.ts";
import type { Sha, Workspace } from "./port.ts";
import { moveRef, resolveCommit } from "./refs.ts";
import { restorePaths } from "./restore.ts";
import { createScratch } from "./scratch.ts";
import { prepareAuthority } from "./source.ts";
import { type Authority, closeTree, openTree, syncVolume } from "./volume.ts";

export interface WorkspaceOptions {
  /** The repositories are in `<dataDir>/repositories/<projectId>.git`. */
  readonly dataDir: string;
  /**
   * Read for PATH, TMPDIR, proxies, certificates and the ssh agent only. Without it git is looked
   * for in /bin and /usr/bin.
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Called at named points between steps, so that tests can fail there. */
  readonly crashPoint?: (name: string) => void | Promise<void>;
}

/** How many bases' facts are remembered: those of the waves that run now. */
const mostBases = 64;

/** The workspace on this machine's git; see the port for what each verb promises. */
export function createWorkspace(options: WorkspaceOptions): Workspace {
  const dataDir = resolvePath(options.dataDir);
  const folder = joinPath(dataDir, "repositories");
  const git = createGit({ home: joinPath(folder, ".home"), env: options.env ?? {} });
  const scratch = createScratch(joinPath(folder, ".scratch"));
  const crashPoint = async (name: string) => options.crashPoint?.(name);
  const inTurn = createTurns();

  const repositoryPath = (projectId: ProjectId): string => {
    if (/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(projectId)) return joinPath(folder, `${projectId}.git`);
    throw new WavesmithError("usage", `not a project's id: ${JSON.stringify(projectId)}`);
  };
  const authorityOf = (projectId: ProjectId): Authority => ({ git, gitDir: repositoryPath(projectId), scratch });
  const baseOf = createBaseFacts();

  return {
    repositoryPath,
    prepare: (projectId, source) => {
      const gitDir = repositoryPath(projectId);
      return inTurn(projectId, () => prepareAuthority({ git, scratch, dataDir, gitDir, crashPoint }, source));
    },
    resolve: (projectId, ref) => resolveCommit(git, repositoryPath(projectId), ref),
    moveRef: (projectId, ref, to, expected) => moveRef(git, repositoryPath(projectId), { ref, to, expected }),
    isAncestor: (projectId, ancestor, descendant) => isAncestor(git, repositoryPath(projectId), ancestor, descendant),
    changedFiles: (projectId, from, to) => changedFiles(git, repositoryPath(projectId), from, to),
    diff: (projectId, from, to, shown = {}) => diffText(git, repositoryPath(projectId), { from, to, ...shown }),
    listFiles: (projectId, sha) => listFiles(git, repositoryPath(projectId), sha),
    readBlob: (projectId, sha, path, limits = {}) => readBlob(git, repositoryPath(projectId), { sha, path, ...limits }),
    syncVolume: (projectId, guest, sha) => inTurn(projectId, () => syncVolume(authorityOf(projectId), guest, sha)),
    openTree: async ({ projectId, guest, treePath, sha, reuse }) => {
      const authority = authorityOf(projectId);
      const rules = excludeRules((await baseOf(authority, sha)).excluded);
      await openTree(authority, guest, { treePath, sha, reuse, rules });
    },
    closeTree,
    keepTree: async (request) => {
      const authority = authorityOf(request.projectId);
      return keepTree({ authority, base: await baseOf(authority, request.base), crashPoint }, request);
    },
    restorePaths: async (request) => {
      const authority = authorityOf(request.projectId);
      return restorePaths({ authority, base: await baseOf(authority, request.base) }, request);
    },
    join: (request) => join(authorityOf(request.projectId), request, crashPoint),
  };
}

/** Runs the work of one project one after the other; of different projects at once. */
function createTurns() {
  const last = new Map<ProjectId, Promise<unknown>>();
  return <T>(projectId: ProjectId, work: () => Promise<T>): Promise<T> => {
    const before = last.get(projectId) ?? Promise.resolve();
    const mine = before.then(work, work);
    last.set(projectId, mine);
    return mine;
  };
}

/** Whether the authority of a project has a commit; false also when there is no authority. */
export const holdsCommit =
  (workspace: Workspace) =>
  async (projectId: ProjectId, sha: string): Promise<boolean> =>
    existsSync(workspace.repositoryPath(projectId)) && (await workspace.resolve(projectId, sha)) !== null;

interface BaseFacts {
  readonly tree: Sha;
  readonly excluded: readonly string[];
}

/** What every tree of a base needs to know, asked of git once per base. */
function createBaseFacts() {
  const known = new Map<Sha, BaseFacts>();
  return async (authority: Authority, sha: Sha): Promise<BaseFacts> => {
    const found = known.get(sha);
    if (found !== undefined) return found;
    const tree = await treeOf(authority.git, authority.gitDir, sha);
    const excluded = excludedFolders(await listFolders(authority.git, authority.gitDir, sha));
    known.set(sha, { tree, excluded });
    const oldest = known.keys().next().value;
    if (known.size > mostBases && oldest !== undefined) known.delete(oldest);
    return { tree, excluded };
  };
}
