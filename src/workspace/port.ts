import type { ProjectId } from "../domain/ids.ts";
import type { Plan } from "../domain/plan.ts";
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
 * Whether a tree that is there is kept, or made afresh. `since-boot`: kept if it was opened since
 * the machine started, for nothing on the volume waits for the disk, and a power cut leaves files
 * of a tree empty.
 */
export type Reuse = boolean | "since-boot";

export interface KeepRequest {
  readonly projectId: ProjectId;
  readonly guest: GuestClient;
  /** The attempt's tree on the volume, such as `trees/bld_x/api.1`. */
  readonly treePath: string;
  /** The commit the tree was opened at: the parent of what is kept. */
  readonly base: Sha;
  /** Subject, body and trailers. */
  readonly message: string;
  readonly author: { readonly name: string; readonly email: string };
  /** Fixed, so that keeping the same tree again gives the same SHA. */
  readonly date: Date;
  /** A full ref, such as `refs/heads/wavesmith/bld_x/task/api/1`. */
  readonly ref: string;
  /**
   * Changes at paths that one of these globs matches, and no others; others may go on in the tree
   * meanwhile. Absent: all.
   */
  readonly only?: readonly string[];
}

export interface RestoreRequest {
  readonly projectId: ProjectId;
  readonly guest: GuestClient;
  readonly treePath: string;
  /** What the paths are to be like again. */
  readonly base: Sha;
  /** The globs of the paths; null: all of the tree. */
  readonly only: readonly string[] | null;
}

export interface KeepResult {
  /** Null when the tree does not differ from its base. */
  readonly commit: Sha | null;
  readonly changed: ChangedFile[];
  /**
   * What could not be kept, in words (an embedded repository, a file above the size limit); empty
   * when all is kept.
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
  /**
   * Paths (globs) whose conflicts are settled by making them again; they take the head's side here.
   */
  readonly generated: readonly string[];
  readonly date: Date;
  readonly author: { readonly name: string; readonly email: string };
  readonly message: (branch: JoinBranch) => string;
}

export interface JoinResult {
  readonly head: Sha;
  readonly joined: string[];
  readonly conflicts: { readonly taskKey: string; readonly paths: string[]; readonly detail: string }[];
  /** Declared `generated` paths that must be made again on the head. */
  readonly regenerate: string[];
}

/** Crash points inside the verbs, besides those around them. */
export const workspaceCrashPoints = ["prepare.made", "keep.bundled", "keep.received", "keep.moved", "join.merged"];

/**
 * Git: the bare repository outside the sandbox is the authority; trees on the volume are opened
 * from it. Every verb is idempotent; refs move by compare-and-swap only; host git touches only the
 * authority.
 */
export interface Workspace {
  /** The authority's path on disk. */
  repositoryPath(projectId: ProjectId): string;
  /**
   * Makes the authority if it is missing, and its `main` from the source (an empty root commit of
   * fixed date when the source is empty). A project that has a `main` keeps it and does not read
   * the source again. Returns main's SHA.
   */
  prepare(projectId: ProjectId, source: Plan["source"], date: Date): Promise<Sha>;
  resolve(projectId: ProjectId, ref: string): Promise<Sha | null>;
  /**
   * Moves a ref if it is at `expected` (null: absent). Returns false when it is elsewhere; true
   * also when it is at `to` already.
   */
  moveRef(projectId: ProjectId, ref: string, to: Sha, expected: Sha | null): Promise<boolean>;
  isAncestor(projectId: ProjectId, ancestor: Sha, descendant: Sha): Promise<boolean>;
  changedFiles(projectId: ProjectId, from: Sha, to: Sha): Promise<ChangedFile[]>;
  /** Unified diff, at most `maxBytes`. */
  diff(projectId: ProjectId, from: Sha, to: Sha, options?: { maxBytes?: number; paths?: string[] }): Promise<string>;
  listFiles(projectId: ProjectId, sha: Sha): Promise<{ path: string; mode: string; sizeBytes: number }[]>;
  /** A blob at a commit; null when absent or larger than `maxBytes` (default 1 MiB). */
  readBlob(projectId: ProjectId, sha: Sha, path: string, options?: { maxBytes?: number }): Promise<Buffer | null>;

  /**
   * Brings the volume's `repo` to `sha` (objects streamed as a bundle; rebuilt from nothing when
   * lost or ruined).
   */
  syncVolume(projectId: ProjectId, guest: GuestClient, sha: Sha): Promise<void>;
  /**
   * Opens a clean tree of `sha` at `treePath` on the volume; a whole one that is there is kept as
   * `reuse` says.
   */
  openTree(request: {
    projectId: ProjectId;
    guest: GuestClient;
    treePath: string;
    sha: Sha;
    reuse: Reuse;
  }): Promise<void>;
  /** Removes a tree; safe when absent. */
  closeTree(guest: GuestClient, treePath: string): Promise<void>;
  /**
   * Commits what the tree holds, brings it to the authority as a bundle (fsck on, hooks off) and
   * puts `ref` on it.
   */
  keepTree(request: KeepRequest): Promise<KeepResult>;
  /**
   * Makes paths of a tree as they are at `base`, without a look at the rest; what git ignores
   * stays. Returns the paths that differed. None when there is no tree. Keep what they hold first.
   */
  restorePaths(request: RestoreRequest): Promise<string[]>;
  /**
   * Joins branches in the authority, tried before done; pure in its result: the same request gives
   * the same head.
   */
  join(request: JoinRequest): Promise<JoinResult>;
}
