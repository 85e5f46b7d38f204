import { type Git, splitZ } from "./git.ts";
import { parseChanges, type RawChange } from "./history.ts";
import type { JoinBranch, JoinRequest, Sha } from "./port.ts";

// Most branches of a wave touch files that no other touches. What merging those gives needs no
// merge to be known, and one git writes them all.
// U1. A branch is plain when it is one commit on the base that adds and modifies files and does
// nothing else: then no rename, removal or change of type can play a part, and a merge of plain
// branches that share no path is their union.
// U2. As soon as anything but plain branches is in the head, nothing is joined this way any more.
// U3. What is written is, byte for byte, what merging one after the other writes.

/** What is written at once at most; a branch more may be added. */
const mostPending = 50_000;

export interface Union {
  /** Whether this branch can be joined without a merge, to what was joined so far. */
  takes(branch: JoinBranch): boolean;
  /** It is joined with the next `write`. */
  add(branch: JoinBranch): void;
  readonly isFull: boolean;
  /** Commits what was added on `head`; returns the commits, one a branch, in order. */
  write(head: Sha): Promise<Sha[]>;
  /** This branch was joined by a merge. */
  merged(branch: JoinBranch): void;
}

export interface UnionOptions {
  readonly git: Git;
  readonly gitDir: string;
  readonly request: JoinRequest;
  readonly messageOf: (branch: JoinBranch) => string;
  /** The parents of the commits that are not in the base. */
  readonly parents: ReadonlyMap<Sha, readonly Sha[]>;
}

interface PlainChange {
  readonly path: string;
  readonly mode: string;
  readonly blob: Sha;
}

export async function createUnion(options: UnionOptions): Promise<Union> {
  const { git, gitDir, request } = options;
  const plain = isPlainIdentity(request) ? await readPlain(options) : new Map<Sha, PlainChange[]>();
  const taken = createTaken();
  let pending: JoinBranch[] = [];
  let size = 0;
  let isOver = false;
  return {
    takes(branch) {
      const changes = plain.get(branch.commit);
      return !isOver && changes !== undefined && changes.every(({ path }) => taken.isFree(path));
    },
    add(branch) {
      const changes = plain.get(branch.commit)!;
      for (const { path } of changes) taken.take(path);
      pending.push(branch);
      size += 1 + changes.length;
    },
    get isFull() {
      return size >= mostPending;
    },
    async write(head) {
      if (pending.length === 0) return [];
      const branches = pending.map((branch) => ({ branch, changes: plain.get(branch.commit)! }));
      pending = [];
      size = 0;
      return writeUnion({ ...options, git, gitDir }, head, branches);
    },
    merged(branch) {
      const changes = plain.get(branch.commit);
      if (changes === undefined) isOver = true;
      else for (const { path } of changes) taken.take(path);
    },
  };
}

/** Names that git writes as they are. */
function isPlainIdentity({ author }: JoinRequest): boolean {
  return [author.name, author.email].every((text) => /^[A-Za-z0-9]([A-Za-z0-9 @._+-]*[A-Za-z0-9])?$/.test(text));
}

/** The paths changed so far, as files and as folders. */
function createTaken() {
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

/** What each plain branch changes. */
async function readPlain({ git, gitDir, request, parents }: UnionOptions): Promise<Map<Sha, PlainChange[]>> {
  const { base } = request;
  const single = request.branches
    .map(({ commit }) => commit)
    .filter((commit) => isOnlyParent(parents.get(commit), base));
  const found = new Map<Sha, PlainChange[]>();
  if (single.length === 0) return found;
  const input = single.map((commit) => `${commit} ${base}\n`).join("");
  const { stdout } = await git.run(["diff-tree", "--stdin", "-r", "--no-renames", "--raw", "-z"], { gitDir, input });
  for (const [commit, fields] of byCommit(splitZ(stdout))) {
    const changes = parseChanges(fields);
    if (changes.every(isPlain)) found.set(commit, changes);
  }
  return found;
}

const isOnlyParent = (parents: readonly Sha[] | undefined, base: Sha): boolean =>
  parents?.length === 1 && parents[0] === base;

/**
 * `diff-tree --stdin -z` begins what it says of a commit with its SHA; a record begins with a colon
 * and has two fields.
 */
function byCommit(fields: readonly string[]): Map<Sha, string[]> {
  const found = new Map<Sha, string[]>();
  let mine: string[] = [];
  for (let at = 0; at < fields.length; at += 1) {
    const field = fields[at]!;
    if (field.startsWith(":")) {
      mine.push(field, fields[at + 1] ?? "");
      at += 1;
    } else {
      mine = [];
      found.set(field, mine);
    }
  }
  return found;
}

const fileModes = new Set(["100644", "100755"]);

/** A name that is no UTF-8 was not read as it is. */
const isPlain = ({ status, mode, path }: RawChange): boolean =>
  fileModes.has(mode) && (status === "added" || status === "modified") && !path.includes("\ufffd");

interface Joined {
  readonly branch: JoinBranch;
  readonly changes: readonly PlainChange[];
}

/**
 * One git writes all commits. It can do that on a ref only; this one is never there for others to
 * see.
 */
async function writeUnion(options: UnionOptions, head: Sha, branches: readonly Joined[]): Promise<Sha[]> {
  const { git, gitDir, request } = options;
  const ref = "refs/wavesmith/joining";
  const who = `${request.author.name} <${request.author.email}> ${Math.floor(request.date.getTime() / 1000)} +0000`;
  const commits = branches.map(({ branch, changes }, index) => {
    const message = options.messageOf(branch);
    return [
      `commit ${ref}\nmark :${index + 1}\nauthor ${who}\ncommitter ${who}\n`,
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

/** As fast-import reads a path that has something other than plain letters in it. */
const quoted = (path: string): string => `"${path.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`;
