import { WavesmithError } from "../domain/errors.ts";
import { assertSha, type Git, splitZ } from "./git.ts";
import type { ChangedFile, Sha } from "./port.ts";

// Reading the authority. Nothing here writes.

const mebibyte = 1 << 20;
const cutNote = (bytes: number) => `[the diff goes on; cut at ${bytes} bytes]\n`;

/** Fails with `git` when either commit is absent. */
export async function isAncestor(git: Git, gitDir: string, ancestor: Sha, descendant: Sha): Promise<boolean> {
  const args = ["merge-base", "--is-ancestor", assertSha(ancestor), assertSha(descendant)];
  return (await git.run(args, { gitDir, answers: [0, 1] })).exitCode === 0;
}

const statuses: Readonly<Record<string, ChangedFile["status"]>> = {
  A: "added",
  M: "modified",
  D: "deleted",
  R: "renamed",
  T: "type-changed",
};

export interface RawChange extends ChangedFile {
  /** Git's file mode after the change; `160000` is a repository inside the tree. */
  readonly mode: string;
}

/** What differs between two commits, renames found, in git's order of paths. */
export async function changesBetween(git: Git, gitDir: string, from: Sha, to: Sha): Promise<RawChange[]> {
  const args = ["diff-tree", "-r", "-M", "-z", "--no-commit-id", "--raw", "--numstat", assertSha(from), assertSha(to)];
  return parseChanges(splitZ((await git.run(args, { gitDir })).stdout));
}

/** Reads `diff-tree -z --raw --numstat`: first every raw record, then the counts in the same order. */
export function parseChanges(fields: readonly string[]): RawChange[] {
  const raws: { status: string; mode: string; path: string; from: string | null }[] = [];
  let at = 0;
  while (fields[at]?.startsWith(":")) {
    const [, mode = "", , , status = ""] = fields[at]!.split(" ");
    const renamed = status.startsWith("R") || status.startsWith("C");
    raws.push({ status, mode, path: fields[at + (renamed ? 2 : 1)]!, from: renamed ? fields[at + 1]! : null });
    at += renamed ? 3 : 2;
  }
  return raws.map((raw) => {
    const [added = "-", deleted = "-"] = (fields[at] ?? "").split("\t");
    at += raw.from === null ? 1 : 3;
    return {
      path: raw.path,
      status: statuses[raw.status.charAt(0)] ?? "modified",
      from: raw.from,
      addedLines: added === "-" ? null : Number(added),
      deletedLines: deleted === "-" ? null : Number(deleted),
      binary: added === "-",
      mode: raw.mode,
    };
  });
}

export async function changedFiles(git: Git, gitDir: string, from: Sha, to: Sha): Promise<ChangedFile[]> {
  return (await changesBetween(git, gitDir, from, to)).map(withoutMode);
}

export function withoutMode({ mode: _, ...change }: RawChange): ChangedFile {
  return change;
}

/** Unified diff of at most `maxBytes` (default 1 MiB); a longer one ends at a line, with a note. */
export async function diffText(
  git: Git,
  gitDir: string,
  request: { from: Sha; to: Sha; maxBytes?: number; paths?: readonly string[] },
): Promise<string> {
  const maxBytes = request.maxBytes ?? mebibyte;
  const shown = ["-r", "-p", "-M", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"];
  const args = ["diff-tree", ...shown, assertSha(request.from), assertSha(request.to), "--", ...(request.paths ?? [])];
  const { stdout, cut } = await git.run(args, { gitDir, maxBytes });
  if (!cut) return stdout.toString("utf8");
  const note = cutNote(maxBytes);
  const kept = stdout.subarray(0, Math.max(0, maxBytes - note.length));
  return kept.subarray(0, kept.lastIndexOf(0x0a) + 1).toString("utf8") + note;
}

export interface ListedFile {
  readonly path: string;
  readonly mode: string;
  readonly sizeBytes: number;
}

export async function listFiles(git: Git, gitDir: string, sha: Sha): Promise<ListedFile[]> {
  const { stdout } = await git.run(["ls-tree", "-r", "-l", "-z", assertSha(sha)], { gitDir });
  return splitZ(stdout).map((line) => {
    const tab = line.indexOf("\t");
    const [mode = "", , , size = "-"] = line.slice(0, tab).split(/ +/);
    return { path: line.slice(tab + 1), mode, sizeBytes: size === "-" ? 0 : Number(size) };
  });
}

/** The folders a commit has, all depths. */
export async function listFolders(git: Git, gitDir: string, sha: Sha): Promise<string[]> {
  return splitZ((await git.run(["ls-tree", "-r", "-d", "-z", "--name-only", assertSha(sha)], { gitDir })).stdout);
}

/** A blob at a commit (a symlink's is its target); null when absent, no file, or larger than `maxBytes`. */
export async function readBlob(
  git: Git,
  gitDir: string,
  request: { sha: Sha; path: string; maxBytes?: number },
): Promise<Buffer | null> {
  const name = `${assertSha(request.sha)}:${request.path}`;
  if (request.path === "" || name.includes("\0")) return null;
  const most = request.maxBytes ?? mebibyte;
  const options = { gitDir, input: `${name}\0`, maxBytes: most + 128 };
  const { stdout } = await git.run(["cat-file", "--batch", "-z"], options);
  const header = /^([0-9a-f]{40}) (\w+) (\d+)\n/.exec(stdout.subarray(0, 128).toString("latin1"));
  if (header === null || header[2] !== "blob" || Number(header[3]) > most) return null;
  const start = header[0].length;
  return Buffer.from(stdout.subarray(start, start + Number(header[3])));
}

/** The tree of a commit. */
export async function treeOf(git: Git, gitDir: string, commit: Sha): Promise<Sha> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{tree}`];
  const result = await git.run(args, { gitDir, answers: [0, 1, 128] });
  if (result.exitCode === 0) return result.stdout.toString("utf8").trim();
  throw new WavesmithError("not-found", `there is no commit ${commit} in ${gitDir}`);
}
