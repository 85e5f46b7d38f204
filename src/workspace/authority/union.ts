import { getKnown, itemAt } from "../../domain/known.ts";
import type { JoinBranch, JoinRequest, Sha } from "../port.ts";
import { type Git, splitZ } from "./git.ts";
import { parseChanges, type RawChange } from "./history.ts";

// Most branches of a wave touch files that no other branch touches. Their merge is known without
// merging, and one git process can write all the commits.
// UN1. A branch is plain if it is one commit on the base that only adds and modifies files. No
// rename, removal or change of type can then play a part, and the merge of plain branches that
// share no path is their union.
// UN2. Once the head holds any other branch, no more branches are joined this way.
// UN3. The commits are byte for byte those that merging one branch after the other would write.

/** The number of commits and changes that triggers a write. */
const maxPending = 50_000;

export interface Union {
  /** Whether this branch can be joined to the others without a merge. */
  takes(branch: JoinBranch): boolean;
  /** Adds a branch, to be joined by the next `write`. */
  add(branch: JoinBranch): void;
  readonly isFull: boolean;
  /** Commits the added branches on `head`; returns one commit per branch, in order. */
  write(head: Sha): Promise<Sha[]>;
  /** Records that this branch was joined by a merge. */
  merged(branch: JoinBranch): void;
}

export interface UnionOptions {
  readonly git: Git;
  readonly gitDir: string;
  readonly request: JoinRequest;
  readonly messageOf: (branch: JoinBranch) => string;
  /** The parents of each commit that is not in the base. */
  readonly parents: ReadonlyMap<Sha, readonly Sha[]>;
}

interface PlainChange {
  readonly path: string;
  readonly mode: string;
  readonly blob: Sha;
}

export async function createUnion(options: UnionOptions): Promise<Union> {
  const { git, gitDir, request } = options;
  const plainChanges = isPlainIdentity(request) ? await readPlainChanges(options) : new Map<Sha, PlainChange[]>();
  const takenPaths = createTakenPaths();
  let pending: JoinBranch[] = [];
  let size = 0;
  let isOver = false;
  return {
    takes(branch) {
      const changes = plainChanges.get(branch.commit);
      return !isOver && changes !== undefined && changes.every(({ path }) => takenPaths.isFree(path));
    },
    add(branch) {
      const changes = getKnown(plainChanges, branch.commit);
      for (const { path } of changes) takenPaths.take(path);
      pending.push(branch);
      size += 1 + changes.length;
    },
    get isFull() {
      return size >= maxPending;
    },
    async write(head) {
      if (pending.length === 0) return [];
      const branches = pending.map((branch) => ({ branch, changes: getKnown(plainChanges, branch.commit) }));
      pending = [];
      size = 0;
      return writeUnion({ ...options, git, gitDir }, head, branches);
    },
    merged(branch) {
      const changes = plainChanges.get(branch.commit);
      if (changes === undefined) isOver = true;
      else for (const { path } of changes) takenPaths.take(path);
    },
  };
}

/** Whether git writes the author's name and address unchanged. */
function isPlainIdentity({ author }: JoinRequest): boolean {
  return [author.name, author.email].every((text) => /^[A-Za-z0-9]([A-Za-z0-9 @._+-]*[A-Za-z0-9])?$/.test(text));
}

/** The paths changed so far, as files and as folders. */
function createTakenPaths() {
  const files = new Set<string>();
  const folders = new Set<string>();
  const foldersOf = (path: string): string[] => {
    const parts = path.split("/");
    return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
  };
  return {
    isFree: (path: string) =>
      !files.has(path) && !folders.has(path) && !foldersOf(path).some((folder) => files.has(folder)),
    take(path: string) {
      files.add(path);
      for (const folder of foldersOf(path)) folders.add(folder);
    },
  };
}

/** Returns the changes of each plain branch. */
async function readPlainChanges({ git, gitDir, request, parents }: UnionOptions): Promise<Map<Sha, PlainChange[]>> {
  const { base } = request;
  const singleCommits = request.branches
    .map(({ commit }) => commit)
    .filter((commit) => isOnlyParent(parents.get(commit), base));
  const changesByCommit = new Map<Sha, PlainChange[]>();
  if (singleCommits.length === 0) return changesByCommit;
  const input = singleCommits.map((commit) => `${commit} ${base}\n`).join("");
  const { stdout } = await git.run(["diff-tree", "--stdin", "-r", "--no-renames", "--raw", "-z"], { gitDir, input });
  for (const [commit, fields] of byCommit(splitZ(stdout))) {
    const changes = parseChanges(fields);
    if (changes.every(isPlain)) changesByCommit.set(commit, changes);
  }
  return changesByCommit;
}

const isOnlyParent = (parents: readonly Sha[] | undefined, base: Sha): boolean =>
  parents?.length === 1 && parents[0] === base;

/**
 * Groups the output of `diff-tree --stdin -z` by commit: each commit's SHA comes first, and a
 * record starts with a colon and has two fields.
 */
function byCommit(fields: readonly string[]): Map<Sha, string[]> {
  const fieldsByCommit = new Map<Sha, string[]>();
  let commitFields: string[] = [];
  for (let at = 0; at < fields.length; at += 1) {
    const field = itemAt(fields, at);
    if (field.startsWith(":")) {
      commitFields.push(field, fields[at + 1] ?? "");
      at += 1;
    } else {
      commitFields = [];
      fieldsByCommit.set(field, commitFields);
    }
  }
  return fieldsByCommit;
}

const fileModes = new Set(["100644", "100755"]);

/**
 * Whether a change is plain (UN1). A name that is not UTF-8 was damaged on reading, so it is not.
 */
const isPlain = ({ status, mode, path }: RawChange): boolean =>
  fileModes.has(mode) && (status === "added" || status === "modified") && !path.includes("\ufffd");

interface PlainBranch {
  readonly branch: JoinBranch;
  readonly changes: readonly PlainChange[];
}

/**
 * Writes all commits with one git process. fast-import needs a ref; this one is deleted in the same
 * run, so that nobody sees it.
 */
async function writeUnion(options: UnionOptions, head: Sha, branches: readonly PlainBranch[]): Promise<Sha[]> {
  const { git, gitDir, request } = options;
  const ref = "refs/wavesmith/joining";
  const signature = `${request.author.name} <${request.author.email}> ${Math.floor(request.date.getTime() / 1000)} +0000`;
  const commits = branches.map(({ branch, changes }, index) => {
    const message = options.messageOf(branch);
    return [
      `commit ${ref}\nmark :${index + 1}\nauthor ${signature}\ncommitter ${signature}\n`,
      `data ${Buffer.byteLength(message)}\n${message}`,
      `from ${index === 0 ? head : `:${index}`}\nmerge ${branch.commit}\n`,
      ...changes.map(({ mode, blob, path }) => `M ${mode} ${blob} ${quoted(path)}\n`),
      `\nget-mark :${index + 1}\n`,
    ].join("");
  });
  const input = `${commits.join("")}reset ${ref}\nfrom ${"0".repeat(40)}\n\n`;
  const args = ["fast-import", "--quiet", "--date-format=raw", "--cat-blob-fd=1"];
  return (await git.text(args, { gitDir, input })).split("\n");
}

/** Quotes a path as fast-import expects it. */
const quoted = (path: string): string => `"${path.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;
