import type { ReadableStream } from "node:stream/web";
import type { RequestCommit } from "../domain/forge.ts";
import type { ProjectId } from "../domain/ids.ts";
import type { Plan } from "../domain/plan/plan.ts";
import type { GuestClient } from "../sandbox/port.ts";

export type Sha = string;

export interface ChangedFile {
  readonly path: string;
  readonly status: "added" | "modified" | "deleted" | "renamed" | "type-changed";
  /** The former path of a rename, else null. */
  readonly from: string | null;
  readonly addedLines: number | null;
  readonly deletedLines: number | null;
  readonly binary: boolean;
}

/**
 * Whether to reuse an existing tree. `since-boot`: reuse it only if it was opened since the machine
 * booted, because the volume is never flushed and a power cut can leave files of a tree empty.
 */
export type Reuse = boolean | "since-boot";

/**
 * Where a tree has the record of what its setup left: `git diff-index --raw -z` of its base. A file
 * that still matches the record is not kept.
 */
export const setupRecord = ".git/wavesmith-setup";

export interface KeepRequest {
  readonly projectId: ProjectId;
  readonly guest: GuestClient;
  /** The attempt's tree on the volume, such as `trees/bld_x/api.1`. */
  readonly treePath: string;
  /** The commit the tree was opened at, which becomes the new commit's parent. */
  readonly base: Sha;
  /** Subject, body and trailers. */
  readonly message: string;
  readonly author: { readonly name: string; readonly email: string };
  /** Fixed, so that keeping the same tree again gives the same SHA. */
  readonly date: Date;
  /** A full ref, such as `refs/heads/wavesmith/bld_x/task/api/1`. */
  readonly ref: string;
  /**
   * Keeps only changes at paths that one of these globs matches; other callers may keep working in
   * the tree. Absent: all paths.
   */
  readonly only?: readonly string[];
  /** Paths whose content counts as work even if setup left the same. */
  readonly made?: readonly string[];
}

export interface RestoreRequest {
  readonly projectId: ProjectId;
  readonly guest: GuestClient;
  readonly treePath: string;
  /** The commit to restore the paths from. */
  readonly base: Sha;
  /** Globs of the paths; null: the whole tree. */
  readonly only: readonly string[] | null;
}

export interface KeepResult {
  /** Null when the tree does not differ from its base. */
  readonly commit: Sha | null;
  readonly changed: ChangedFile[];
  /**
   * Descriptions of the files that could not be kept, such as a nested repository or a file above
   * the size limit.
   */
  readonly refused: string[];
}

export interface JoinBranch {
  readonly taskKey: string;
  readonly title: string;
  readonly commit: Sha;
}

export interface JoinRequest {
  readonly projectId: ProjectId;
  readonly base: Sha;
  /** In plan order. */
  readonly branches: readonly JoinBranch[];
  /** Globs of generated paths. In a conflict they take the head's version and are regenerated. */
  readonly generated: readonly string[];
  readonly date: Date;
  readonly author: { readonly name: string; readonly email: string };
  readonly message: (branch: JoinBranch) => string;
  /** Joins a branch that conflicts as well, with conflict markers in its files. */
  readonly marks?: boolean;
}

export interface JoinResult {
  readonly head: Sha;
  readonly joined: string[];
  readonly conflicts: {
    readonly taskKey: string;
    readonly paths: string[];
    readonly detail: string;
    /** The joined tasks that changed these paths; none if the base did. */
    readonly otherKeys: string[];
  }[];
  /** Generated paths that must be regenerated on the head. */
  readonly regenerate: string[];
}

/** A file, folder or link of a commit. */
export interface TreeEntry {
  readonly path: string;
  /** `repository`: a nested one, of which only the commit is known. */
  readonly kind: "file" | "folder" | "link" | "repository";
  /** Git's mode. */
  readonly mode: string;
  /** The SHA of its content: equal for equal content. */
  readonly id: Sha;
  /** Null for anything but a file or link. */
  readonly sizeBytes: number | null;
}

/** A file to commit by hand. */
export interface FileCommit {
  readonly parent: Sha;
  readonly path: string;
  /** A file on this machine with the new content. */
  readonly from: string;
  readonly message: string;
  readonly author: { readonly name: string; readonly email: string };
  readonly date: Date;
}

/** How a source compares with a project's main. */
export interface SourceState {
  readonly main: Sha;
  /** The source's commit; null if it has none. */
  readonly commit: Sha | null;
  /**
   * `same`: main has all of it. `ahead`: it has all of main, and more. `diverged`: each has
   * something that the other lacks. `unrelated`: they share no history. `none`: there is no source.
   */
  readonly relation: "none" | "same" | "ahead" | "diverged" | "unrelated";
  /** How many commits of the source main lacks. */
  readonly commits: number;
  /** It is a plain folder, without its own history. */
  readonly isFolder: boolean;
}

/** Names a source that is a plain folder as it was last merged. */
export const sourceFolderRef = "refs/wavesmith/folder";

/** Crash points inside the operations, in addition to those around them. */
export const workspaceCrashPoints = ["prepare.made", "keep.bundled", "keep.received", "keep.moved", "join.merged"];

/**
 * The project's git. The authority is a bare repository outside the sandbox; trees on the volume
 * are opened from it. Every operation is idempotent, refs move only by compare-and-swap, and the
 * host's git touches only the authority.
 */
export interface Workspace {
  /** The authority's path on disk. */
  repositoryPath(projectId: ProjectId): string;
  /**
   * Creates the authority and its `main` from the source, if they are missing. An empty source
   * gives an empty root commit with a fixed date. A project that has a `main` keeps it and does not
   * read the source again. Returns main's SHA.
   */
  prepare(projectId: ProjectId, source: Plan["source"], date: Date): Promise<Sha>;
  /** Compares a source with main; null if the project has no main yet. Moves no ref. */
  compareSource(projectId: ProjectId, source: Plan["source"]): Promise<SourceState | null>;
  /** Writes main with its history to a bundle, for a server. */
  bundleMain(projectId: ProjectId, file: string): Promise<void>;
  /** Writes a commit with its history to a bundle, in which it is the branch main. */
  bundleCommit(projectId: ProjectId, sha: Sha, file: string): Promise<void>;
  /**
   * Makes the repository `to` from such a bundle, as a source of builds. Fails with `usage` for any
   * other file.
   */
  unpackUpload(upload: { readonly file: string; readonly to: string }): Promise<void>;
  resolve(projectId: ProjectId, ref: string): Promise<Sha | null>;
  /**
   * Moves a ref if it is at `expected` (null: absent). Returns false if it is elsewhere, and true
   * if it already is at `to`.
   */
  moveRef(projectId: ProjectId, ref: string, to: Sha, expected: Sha | null): Promise<boolean>;
  isAncestor(projectId: ProjectId, ancestor: Sha, descendant: Sha): Promise<boolean>;
  /** Lists the newest commits, at most `limit`, that `to` has and `from` lacks; oldest first. */
  listCommits(projectId: ProjectId, from: Sha, to: Sha, limit: number): Promise<RequestCommit[]>;
  changedFiles(projectId: ProjectId, from: Sha, to: Sha): Promise<ChangedFile[]>;
  /** Returns a unified diff of at most `maxBytes`, without the files of the globs `except`. */
  diff(
    projectId: ProjectId,
    from: Sha,
    to: Sha,
    options?: { maxBytes?: number; paths?: string[]; except?: readonly string[] },
  ): Promise<string>;
  listFiles(projectId: ProjectId, sha: Sha): Promise<{ path: string; mode: string; sizeBytes: number }[]>;
  /** Reads a file at a commit; null if it is absent or larger than `maxBytes` (default 1 MiB). */
  readBlob(projectId: ProjectId, sha: Sha, path: string, options?: { maxBytes?: number }): Promise<Buffer | null>;

  /** Finds a file, folder or link at a commit; null if it is absent. Follows no link. */
  findEntry(projectId: ProjectId, sha: Sha, path: string): Promise<TreeEntry | null>;
  /** Lists a folder at a commit (`""` is the root); null if there is no such folder. */
  listFolder(projectId: ProjectId, sha: Sha, path: string): Promise<TreeEntry[] | null>;
  /** Streams a file's content by its id. */
  streamBlob(projectId: ProjectId, id: Sha): ReadableStream<Uint8Array>;
  /**
   * Commits one file on top of a commit and moves no ref. Fails with `conflict` where something
   * other than a file has its place.
   */
  commitFile(projectId: ProjectId, change: FileCommit): Promise<{ readonly commit: Sha; readonly id: Sha }>;
  /**
   * Brings the volume's `repo` to `sha`. Objects are streamed as a bundle; a lost or damaged `repo`
   * is rebuilt.
   */
  syncVolume(projectId: ProjectId, guest: GuestClient, sha: Sha): Promise<void>;
  /**
   * Opens a clean tree of `sha` at `treePath` on the volume. `reuse` decides whether a complete
   * existing tree is kept.
   */
  openTree(request: {
    projectId: ProjectId;
    guest: GuestClient;
    treePath: string;
    sha: Sha;
    reuse: Reuse;
  }): Promise<void>;
  /** Removes a tree; does nothing if it is absent. */
  closeTree(guest: GuestClient, treePath: string): Promise<void>;
  /**
   * Commits a tree's content, brings it to the authority as a bundle (fsck on, hooks off) and
   * points `ref` to it.
   */
  keepTree(request: KeepRequest): Promise<KeepResult>;
  /**
   * Restores paths of a tree to `base`; other paths and ignored files stay. Returns the paths that
   * differed, none if there is no tree. Keep the tree first, because their content is lost.
   */
  restorePaths(request: RestoreRequest): Promise<string[]>;
  /**
   * Joins branches in the authority; a branch that conflicts is left out and reported. The same
   * request gives the same head.
   */
  join(request: JoinRequest): Promise<JoinResult>;
}
