import { randomBytes } from "node:crypto";
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
  /** The object after the change. */
  readonly blob: Sha;
}

const changeFormat = ["-r", "-M", "-z", "--raw", "--numstat"];

/** What differs between two commits, renames found, in git's order of paths. */
async function changesBetween(git: Git, gitDir: string, from: Sha, to: Sha): Promise<RawChange[]> {
  const args = ["diff-tree", ...changeFormat, "--no-commit-id", assertSha(from), assertSha(to)];
  return parseChanges(splitZ((await git.run(args, { gitDir })).stdout));
}

/** `changesBetween` a commit and the one before it, for whoever asks it of many commits. */
export async function changesOf(git: Git, gitDir: string, before: Sha, commit: Sha): Promise<RawChange[]> {
  const end = endMark();
  // git says a line that begins with no SHA back at once, and then has said all before it.
  const question = `${assertSha(commit)} ${assertSha(before)}\n${end}\n`;
  const said = await git.converse(gitDir, ["diff-tree", "--stdin", ...changeFormat]).ask(question, `${end}\n`);
  const [header, ...fields] = splitZ(said);
  // Of a commit it lacks it says nothing, as of one that changes nothing: that is asked in a way
  // that can fail.
  if (header !== commit) return changesBetween(git, gitDir, before, commit);
  return parseChanges(fields);
}

/** What no path and no file holds by chance or by intent. */
const endMark = (): string => `~${randomBytes(12).toString("hex")}`;

/**
 * Reads `diff-tree -z --raw --numstat`: first every raw record, then the counts, if asked for, in
 * the same order.
 */
export function parseChanges(fields: readonly string[]): RawChange[] {
  const raws: { status: string; mode: string; blob: Sha; path: string; from: string | null }[] = [];
  let at = 0;
  while (fields[at]?.startsWith(":")) {
    const [, mode = "", , blob = "", status = ""] = fields[at]!.split(" ");
    const renamed = status.startsWith("R") || status.startsWith("C");
    raws.push({ status, mode, blob, path: fields[at + (renamed ? 2 : 1)]!, from: renamed ? fields[at + 1]! : null });
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
      blob: raw.blob,
    };
  });
}

export async function changedFiles(git: Git, gitDir: string, from: Sha, to: Sha): Promise<ChangedFile[]> {
  return (await changesBetween(git, gitDir, from, to)).map(withoutMode);
}

export function withoutMode({ mode: _, blob: __, ...change }: RawChange): ChangedFile {
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

/**
 * A blob at a commit (a symlink's is its target); null when absent, no file, or larger than
 * `maxBytes`.
 */
export async function readBlob(
  git: Git,
  gitDir: string,
  request: { sha: Sha; path: string; maxBytes?: number },
): Promise<Buffer | null> {
  const name = `${assertSha(request.sha)}:${request.path}`;
  if (request.path === "" || name.includes("\0")) return null;
  const header = await askObject(git, gitDir, `info ${name}`);
  const [, sha, type, size] = /^([0-9a-f]{40}) (\w+) (\d+)\n$/.exec(header.toString("latin1")) ?? [];
  if (type !== "blob" || Number(size) > (request.maxBytes ?? mebibyte)) return null;
  const answer = await askObject(git, gitDir, `contents ${sha}`);
  const start = answer.indexOf(10) + 1;
  return Buffer.from(answer.subarray(start, start + Number(size)));
}

/** One command of `cat-file --batch-command`. */
function askObject(git: Git, gitDir: string, command: string): Promise<Buffer> {
  const end = endMark();
  return git
    .converse(gitDir, ["cat-file", "--batch-command", "-z"])
    .ask(`${command}\0info ${end}\0`, `${end} missing\n`);
}

/** The tree of a commit. */
export async function treeOf(git: Git, gitDir: string, commit: Sha): Promise<Sha> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{tree}`];
  const result = await git.run(args, { gitDir, answers: [0, 1, 128] });
  if (result.exitCode === 0) return result.stdout.toString("utf8").trim();
  throw new WavesmithError("not-found", `there is no commit ${commit} in ${gitDir}`);
}
