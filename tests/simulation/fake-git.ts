import { createHash } from "node:crypto";
import { WavesmithError } from "../../src/domain/errors.ts";
import { matchesAny } from "../../src/domain/paths/write-globs.ts";
import type { ChangedFile, JoinRequest, JoinResult, KeepRequest, Workspace } from "../../src/workspace/port.ts";
import type { FakeGuest } from "./fake-sandbox.ts";

// The workspace's port without git: commits are a message, parents and a map of files; a path that
// both sides changed is a conflict.

export type Tree = ReadonlyMap<string, string>;

interface Commit {
  readonly parents: readonly string[];
  readonly tree: Tree;
}

/** All repositories of a simulation. */
export interface FakeGit {
  readonly commits: Map<string, Commit>;
  readonly refs: Map<string, string>;
  commit(tree: Tree, parents: readonly string[], message: string): string;
  isAncestor(ancestor: string, descendant: string): boolean;
}

export function createFakeGit(): FakeGit {
  const commits = new Map<string, Commit>();
  return {
    commits,
    refs: new Map(),
    commit(tree, parents, message) {
      const text = JSON.stringify([[...tree].sort(), parents, message]);
      const sha = createHash("sha1").update(text).digest("hex");
      commits.set(sha, { tree, parents });
      return sha;
    },
    isAncestor(ancestor, descendant) {
      const open = [descendant];
      const seen = new Set<string>();
      for (let sha = open.pop(); sha !== undefined; sha = open.pop()) {
        if (sha === ancestor) return true;
        if (seen.has(sha)) continue;
        seen.add(sha);
        open.push(...(commits.get(sha)?.parents ?? []));
      }
      return false;
    },
  };
}

/**
 * One process's access to the repositories; `turn` is awaited before every call that changes
 * something.
 */
export function createFakeWorkspace(git: FakeGit, turn: (name: string) => Promise<void>): Workspace {
  const treeOf = (sha: string): Tree => git.commits.get(sha)!.tree;
  const place = (projectId: string, ref: string): string => `${projectId} ${ref}`;
  const move = (projectId: string, ref: string, to: string, expected: string | null): boolean => {
    const now = git.refs.get(place(projectId, ref)) ?? null;
    if (now !== to && now !== expected) return false;
    git.refs.set(place(projectId, ref), to);
    return true;
  };
  const guestOf = (guest: unknown) => guest as FakeGuest;
  return {
    repositoryPath: (projectId) => projectId,
    async compareSource() {
      throw new Error("no source is updated here");
    },
    async bundleMain() {
      throw new Error("no source is sent from here");
    },
    async bundleCommit() {
      throw new Error("no result is sent from here");
    },
    async unpackUpload() {
      throw new Error("no source is received here");
    },
    async prepare(projectId) {
      await turn("workspace.prepare");
      const main = place(projectId, "refs/heads/main");
      if (!git.refs.has(main)) git.refs.set(main, git.commit(new Map(), [], "Begin"));
      return git.refs.get(main)!;
    },
    resolve: async (projectId, ref) => git.refs.get(place(projectId, ref)) ?? null,
    async moveRef(projectId, ref, to, expected) {
      await turn(`workspace.moveRef ${ref}`);
      return move(projectId, ref, to, expected);
    },
    listCommits: async () => [],
    isAncestor: async (_project, ancestor, descendant) => git.isAncestor(ancestor, descendant),
    changedFiles: async (_project, from, to) => changes(treeOf(from), treeOf(to)),
    diff: async () => "",
    listFiles: async (_project, sha) =>
      [...treeOf(sha)].map(([path, text]) => ({ path, mode: "100644", sizeBytes: text.length })),
    async readBlob(_project, sha, path) {
      const text = treeOf(sha).get(path);
      return text === undefined ? null : Buffer.from(text);
    },
    async findEntry() {
      throw new Error("nobody looks at files here");
    },
    async listFolder() {
      throw new Error("nobody looks at folders here");
    },
    streamBlob() {
      throw new Error("nobody reads files here");
    },
    async commitFile() {
      throw new Error("nobody changes files by hand here");
    },
    async syncVolume(_project, guest, sha) {
      await turn("workspace.syncVolume");
      guestOf(guest).volume().repo = sha;
    },
    async openTree({ guest, treePath, sha, reuse }) {
      await turn(`workspace.openTree ${treePath}`);
      if (reuse && guestOf(guest).volume().trees.get(treePath)?.isOpened) return;
      guestOf(guest)
        .volume()
        .trees.set(treePath, { files: new Map(treeOf(sha)), isOpened: true });
    },
    async closeTree(guest, treePath) {
      await turn(`workspace.closeTree ${treePath}`);
      guestOf(guest).volume().trees.delete(treePath);
    },
    async keepTree(request) {
      await turn(`workspace.keepTree ${request.treePath}`);
      return keep(git, request, move);
    },
    async restorePaths({ guest, treePath, base, only }) {
      await turn(`workspace.restorePaths ${treePath}`);
      const tree = guestOf(guest).volume().trees.get(treePath);
      if (tree === undefined || !tree.isOpened) return [];
      const differing = changes(treeOf(base), tree.files).map((change) => change.path);
      const own = differing.filter((path) => only === null || matchesAny(only, path));
      for (const path of own) {
        const text = treeOf(base).get(path);
        if (text === undefined) tree.files.delete(path);
        else tree.files.set(path, text);
      }
      return own;
    },
    async join(request) {
      await turn("workspace.join");
      return join(git, request);
    },
  };
}

function keep(
  git: FakeGit,
  request: KeepRequest,
  move: (projectId: string, ref: string, to: string, expected: string | null) => boolean,
) {
  const tree = (request.guest as FakeGuest).volume().trees.get(request.treePath);
  if (tree === undefined || !tree.isOpened)
    throw new WavesmithError("not-found", `there is no tree ${request.treePath} on the volume`);
  const base = git.commits.get(request.base)!.tree;
  const differing = changes(base, tree.files);
  const changed = differing.filter(({ path }) => request.only === undefined || matchesAny(request.only, path));
  if (changed.length === 0) return { commit: null, changed, refused: [] };
  const files = new Map(base);
  for (const { path } of changed) {
    const text = tree.files.get(path);
    if (text === undefined) files.delete(path);
    else files.set(path, text);
  }
  const commit = git.commit(files, [request.base], request.message);
  if (!move(request.projectId, request.ref, commit, null))
    throw new WavesmithError("conflict", `${request.ref} is on another commit than the ${commit} kept for it`);
  return { commit, changed, refused: [] };
}

function changes(from: Tree, to: Tree): ChangedFile[] {
  const paths = [...new Set([...from.keys(), ...to.keys()])].filter((path) => from.get(path) !== to.get(path));
  return paths.sort().map((path) => ({
    path,
    status: !from.has(path) ? "added" : to.has(path) ? "modified" : "deleted",
    from: null,
    addedLines: 1,
    deletedLines: 0,
    binary: false,
  }));
}

function join(git: FakeGit, request: JoinRequest): JoinResult {
  const conflicts: JoinResult["conflicts"] = [];
  const joined: string[] = [];
  const regenerate = new Set<string>();
  let head = request.base;
  for (const branch of request.branches) {
    if (!git.isAncestor(branch.commit, head)) {
      const merge = mergeTrees(git, head, branch.commit);
      const real = merge.conflicts.filter((path) => !request.generated.includes(path));
      if (real.length > 0) {
        conflicts.push({ taskKey: branch.taskKey, paths: real, detail: "both changed it", otherKeys: [] });
        continue;
      }
      for (const path of merge.conflicts) regenerate.add(path);
      head = git.commit(merge.tree, [head, branch.commit], request.message(branch));
    }
    joined.push(branch.taskKey);
  }
  return { head, joined, conflicts, regenerate: [...regenerate].sort() };
}

/**
 * Merges three ways, from the commit at which the branch began; where both changed a path, the head
 * wins.
 */
function mergeTrees(git: FakeGit, head: string, commit: string): { tree: Tree; conflicts: string[] } {
  const theirs = git.commits.get(commit)!;
  const base = git.commits.get(theirs.parents[0]!)!.tree;
  const ours = git.commits.get(head)!.tree;
  const tree = new Map(ours);
  const conflicts: string[] = [];
  for (const { path } of changes(base, theirs.tree)) {
    const text = theirs.tree.get(path);
    if (ours.get(path) === text) continue;
    if (ours.get(path) !== base.get(path)) conflicts.push(path);
    else if (text === undefined) tree.delete(path);
    else tree.set(path, text);
  }
  return { tree, conflicts };
}
