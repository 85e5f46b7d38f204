import { rm } from "node:fs/promises";
import { join as joinPath } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import { createPathMatcher } from "../../domain/paths/write-globs.ts";
import type { JoinBranch, JoinRequest, JoinResult, Sha } from "../port.ts";
import type { Authority } from "../trees/volume.ts";
import { assertSha, type Git, identityEnvironment, splitZ } from "./git.ts";
import { createUnion } from "./union.ts";

// WJ1. A branch is joined only if it merges cleanly or conflicts only in generated paths. Otherwise
// none of it is in the head, and its commit stays where it is; a request may ask for the merge with
// conflict markers instead, which somebody has to resolve before a gate sees it.
// WJ2. Every joined branch is an ancestor of the head; this is checked at the end.
// WJ3. The same request gives the same head: no ref moves and no clock is read.

// Fixed, so that a merge's result does not depend on a git version's defaults.
const mergeSettings = [
  "merge.renames=true",
  "merge.directoryRenames=conflict",
  "merge.renameLimit=7000",
  "merge.conflictStyle=merge",
  "diff.renameLimit=7000",
];

interface Joining extends Authority {
  readonly request: JoinRequest;
  readonly isGenerated: (path: string) => boolean;
  readonly joined: JoinBranch[];
}

/** Joins the branches in the given order; see the port. */
export async function join(
  authority: Authority,
  request: JoinRequest,
  crashPoint: (name: string) => Promise<void>,
): Promise<JoinResult> {
  const isGenerated = createPathMatcher(request.generated);
  const joining: Joining = { ...authority, request, isGenerated, joined: [] };
  const reach = await readReach(joining);
  const messageOf = (branch: JoinBranch) => messageText(request, branch);
  const union = await createUnion({ ...authority, request, messageOf, parents: reach.parents });
  const conflicts: JoinResult["conflicts"] = [];
  const regenerate = new Set<string>();
  let head = assertSha(request.base);
  const writeUnion = async () => {
    for (const commit of await union.write(head)) {
      head = assertSha(commit);
      await crashPoint("join.merged");
    }
  };
  for (const branch of request.branches) {
    if (!reach.isInHead(branch.commit)) {
      if (union.takes(branch)) union.add(branch);
      else {
        await writeUnion();
        const merge = await tryMerge(joining, head, branch);
        if (merge.tree === null) {
          conflicts.push(await explainConflict(joining, merge, branch));
          if (request.marks !== true) continue;
        }
        head = await commitMerge(joining, { tree: merge.tree ?? merge.marked, head, branch });
        union.merged(branch);
        if (merge.tree !== null) for (const path of merge.paths) regenerate.add(path);
        await crashPoint("join.merged");
      }
      reach.addToHead(branch.commit);
      if (union.isFull) await writeUnion();
    }
    joining.joined.push(branch);
  }
  await writeUnion();
  await proveJoined(joining, head, reach.wasOutside);
  return {
    head,
    joined: joining.joined.map((branch) => branch.taskKey),
    conflicts,
    regenerate: [...regenerate].sort(),
  };
}

/** Tracks which commits the head contains, from one walk between the base and the branches. */
async function readReach(joining: Joining) {
  const { git, gitDir, request } = joining;
  const parents = new Map<Sha, readonly Sha[]>();
  if (request.branches.length > 0) {
    const input = [`^${assertSha(request.base)}`, ...request.branches.map((branch) => assertSha(branch.commit)), ""];
    const listed = await git.text(["rev-list", "--parents", "--stdin"], { gitDir, input: input.join("\n") });
    for (const line of listed.split("\n")) {
      const [commit = "", ...rest] = line.split(" ");
      if (commit !== "") parents.set(commit, rest);
    }
  }
  const outside = new Set(parents.keys());
  return {
    parents,
    isInHead: (commit: Sha) => !outside.has(commit),
    wasOutside: (commit: Sha) => parents.has(commit),
    addToHead(commit: Sha) {
      const queue = [commit];
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
        if (outside.delete(next)) queue.push(...(parents.get(next) ?? []));
      }
    },
  };
}

interface Merge {
  /** Null when the branch conflicts. */
  readonly tree: Sha | null;
  /** The merge as git leaves it, with markers where the branch conflicts. */
  readonly marked: Sha;
  /** The conflicting paths; after a merge, the generated ones that took the head's version. */
  readonly paths: string[];
  readonly messages: readonly string[];
  readonly head: Sha;
}

async function tryMerge(joining: Joining, head: Sha, branch: JoinBranch): Promise<Merge> {
  const { git, gitDir } = joining;
  const args = ["merge-tree", "--write-tree", "-z", "--messages", head, branch.commit];
  const { exitCode, stdout } = await git.run(args, { gitDir, config: mergeSettings, answers: [0, 1] });
  const { tree, paths, messages } = parseMergeTree(stdout, [head, branch.commit]);
  if (exitCode === 0) return { tree, marked: tree, paths: [], messages: [], head };
  const isGeneratedOnly = paths.length > 0 && paths.every(joining.isGenerated);
  const resolvedTree = isGeneratedOnly ? await takeHeadsSide(joining, { tree, head, paths }) : null;
  const shownPaths =
    resolvedTree === null && !isGeneratedOnly ? paths.filter((path) => !joining.isGenerated(path)) : paths;
  return { tree: resolvedTree, marked: tree, paths: shownPaths, messages, head };
}

/**
 * Parses the output of `merge-tree --write-tree -z --messages`. Git may name a path `path~<side>`
 * when a folder is in its place.
 */
export function parseMergeTree(
  output: Buffer,
  sides: readonly Sha[],
): { tree: Sha; paths: string[]; messages: string[] } {
  const fields = output.toString("utf8").split("\0");
  const paths = new Set<string>();
  const messages: string[] = [];
  let at = 1;
  for (; at < fields.length && fields[at] !== ""; at += 1) {
    const path = itemAt(fields, at).slice(itemAt(fields, at).indexOf("\t") + 1);
    const side = sides.find((sha) => path.endsWith(`~${sha}`));
    paths.add(side === undefined ? path : path.slice(0, -side.length - 1));
  }
  for (at += 1; at < fields.length && /^\d+$/.test(itemAt(fields, at)); ) {
    const pathCount = Number(fields[at]);
    const kind = fields[at + pathCount + 1] ?? "";
    const isConflict = kind !== "Auto-merging";
    if (isConflict) messages.push((fields[at + pathCount + 2] ?? "").trim());
    if (isConflict && paths.size === 0) for (const path of fields.slice(at + 1, at + 1 + pathCount)) paths.add(path);
    at += pathCount + 3;
  }
  return { tree: assertSha(fields[0] ?? ""), paths: [...paths].sort(), messages };
}

/**
 * Returns the merged tree with the head's version of these paths, or null when that is not a valid
 * tree because a folder is in a file's place.
 */
async function takeHeadsSide(joining: Joining, merge: { tree: Sha; head: Sha; paths: readonly string[] }) {
  const { git, gitDir, scratch } = joining;
  return scratch.use(async (folder) => {
    const index = joinPath(folder, "index");
    const options = { gitDir, env: { GIT_INDEX_FILE: index } };
    await git.run(["read-tree", merge.tree], options);
    const listed = await git.run(["ls-tree", "-r", "-z", "--full-tree", merge.head, "--", ...merge.paths], options);
    const own = splitZ(listed.stdout).filter((line) => merge.paths.includes(line.slice(line.indexOf("\t") + 1)));
    const removals = merge.paths.map((path) => `0 ${"0".repeat(40)}\t${path}`);
    const input = [...removals, ...own].map((line) => `${line}\0`).join("");
    const updated = await git.run(["update-index", "-z", "--index-info"], { ...options, input, answers: [0, 128] });
    const written = await git.run(["write-tree"], { ...options, answers: [0, 128] });
    await rm(index, { force: true });
    const ok = updated.exitCode === 0 && written.exitCode === 0;
    return ok ? assertSha(written.stdout.toString("utf8").trim()) : null;
  });
}

async function commitMerge(joining: Joining, merge: { tree: Sha; head: Sha; branch: JoinBranch }): Promise<Sha> {
  const { git, gitDir, request } = joining;
  const args = ["commit-tree", merge.tree, "-p", merge.head, "-p", merge.branch.commit];
  const input = messageText(request, merge.branch);
  return assertSha(await git.text(args, { gitDir, env: identityEnvironment(request.author, request.date), input }));
}

const messageText = (request: JoinRequest, branch: JoinBranch): string =>
  `${request.message(branch).replaceAll("\0", "").trimEnd()}\n`;

/** Says what conflicted with whose work, for the agent that retries the task. */
async function explainConflict(
  joining: Joining,
  merge: Merge,
  branch: JoinBranch,
): Promise<JoinResult["conflicts"][number]> {
  const names: Record<Sha, string> = {
    [merge.head]: "the work joined so far",
    [branch.commit]: `task ${branch.taskKey}`,
  };
  const readable = (text: string) => text.replace(/[0-9a-f]{40}/g, (sha) => names[sha] ?? sha);
  const others: string[] = [];
  const otherKeys: string[] = [];
  for (const other of joining.joined) {
    const touchedPaths = await listTouchedPaths(joining.git, joining.gitDir, {
      base: joining.request.base,
      commit: other.commit,
      paths: merge.paths,
    });
    if (touchedPaths.length === 0) continue;
    others.push(`task ${other.taskKey} (${other.title}) changed ${touchedPaths.join(", ")}`);
    otherKeys.push(other.taskKey);
  }
  const fallback = `the joined tree differs from the tree task ${branch.taskKey} started from`;
  const detail = [...merge.messages.map(readable), ...(others.length > 0 ? others : [fallback])].join("\n");
  return { taskKey: branch.taskKey, paths: merge.paths, detail, otherKeys };
}

async function listTouchedPaths(
  git: Git,
  gitDir: string,
  of: { base: Sha; commit: Sha; paths: readonly string[] },
): Promise<string[]> {
  const args = ["diff", "--name-only", "--no-renames", "-z", `${of.base}...${of.commit}`, "--", ...of.paths];
  return splitZ((await git.run(args, { gitDir })).stdout);
}

/**
 * Checks that the joined head contains every joined branch. It lists the head's commits since the
 * base. Asking git which branches are missing from the head gives wrong answers, because our merges
 * are dated before the commits they merge.
 */
async function proveJoined(joining: Joining, head: Sha, wasOutside: (commit: Sha) => boolean): Promise<void> {
  const added = joining.joined.filter((branch) => wasOutside(branch.commit));
  if (added.length === 0) return;
  const args = ["rev-list", head, `^${joining.request.base}`];
  const present = new Set((await joining.git.text(args, { gitDir: joining.gitDir })).split("\n"));
  const missing = added.find((branch) => !present.has(branch.commit));
  if (missing === undefined) return;
  throw new WavesmithError("internal", `commit ${missing.commit} of a joined branch is not in the joined head ${head}`);
}
