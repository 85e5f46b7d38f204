import { rm } from "node:fs/promises";
import { join as joinPath } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { createPathMatcher } from "../domain/write-globs.ts";
import { assertSha, type Git, identityEnvironment, splitZ } from "./git.ts";
import type { JoinBranch, JoinRequest, JoinResult, Sha } from "./port.ts";
import { createUnion } from "./union.ts";
import type { Authority } from "./volume.ts";

// J1. A branch is joined only when all of it merged cleanly, or all that did not is declared
// generated; else its commit stays where it is and nothing of it is in the head.
// J2. Every joined branch is an ancestor of the head: proved at the end, not assumed.
// J3. No ref moves and no clock is read: the same request gives the same head.

// Fixed, so that what a merge gives does not depend on a git version's defaults.
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

/** Joins in the order given; see the port. */
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
          const detail = await explain(joining, merge, branch);
          conflicts.push({ taskKey: branch.taskKey, paths: merge.paths, detail });
          continue;
        }
        head = await commitMerge(joining, { tree: merge.tree, head, branch });
        union.merged(branch);
        for (const path of merge.paths) regenerate.add(path);
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

/** Which commits are in the head, from one walk of everything between the base and the branches. */
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
      const todo = [commit];
      for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
        if (outside.delete(next)) todo.push(...(parents.get(next) ?? []));
      }
    },
  };
}

interface Merge {
  /** Null when the branch conflicts. */
  readonly tree: Sha | null;
  /** Conflicting paths; of a merge that was made, the generated ones that took the head's side. */
  readonly paths: string[];
  readonly messages: readonly string[];
  readonly head: Sha;
}

async function tryMerge(joining: Joining, head: Sha, branch: JoinBranch): Promise<Merge> {
  const { git, gitDir } = joining;
  const args = ["merge-tree", "--write-tree", "-z", "--messages", head, branch.commit];
  const { exitCode, stdout } = await git.run(args, { gitDir, config: mergeSettings, answers: [0, 1] });
  const { tree, paths, messages } = parseMergeTree(stdout, [head, branch.commit]);
  if (exitCode === 0) return { tree, paths: [], messages: [], head };
  const settled = paths.length > 0 && paths.every(joining.isGenerated);
  const made = settled ? await takeHeadsSide(joining, { tree, head, paths }) : null;
  const shown = made === null && !settled ? paths.filter((path) => !joining.isGenerated(path)) : paths;
  return { tree: made, paths: shown, messages, head };
}

/**
 * Reads `merge-tree --write-tree -z --messages`. Git may call a path `path~<side>` when a folder is
 * in its place.
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
    const path = fields[at]!.slice(fields[at]!.indexOf("\t") + 1);
    const side = sides.find((sha) => path.endsWith(`~${sha}`));
    paths.add(side === undefined ? path : path.slice(0, -side.length - 1));
  }
  for (at += 1; at < fields.length && /^\d+$/.test(fields[at]!); ) {
    const named = Number(fields[at]);
    const kind = fields[at + named + 1] ?? "";
    const isConflict = kind !== "Auto-merging";
    if (isConflict) messages.push((fields[at + named + 2] ?? "").trim());
    if (isConflict && paths.size === 0) for (const path of fields.slice(at + 1, at + 1 + named)) paths.add(path);
    at += named + 3;
  }
  return { tree: assertSha(fields[0] ?? ""), paths: [...paths].sort(), messages };
}

/**
 * The merged tree with the head's version of these paths; null when that is no tree (a folder is in
 * a file's place).
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

/** What conflicted and with whose work, for the one who does the task again. */
async function explain(joining: Joining, merge: Merge, branch: JoinBranch): Promise<string> {
  const names: Record<Sha, string> = {
    [merge.head]: "what was joined before",
    [branch.commit]: `task ${branch.taskKey}`,
  };
  const readable = (text: string) => text.replace(/[0-9a-f]{40}/g, (sha) => names[sha] ?? sha);
  const others: string[] = [];
  for (const other of joining.joined) {
    const touched = await touchedBy(joining.git, joining.gitDir, {
      base: joining.request.base,
      commit: other.commit,
      paths: merge.paths,
    });
    if (touched.length > 0) others.push(`task ${other.taskKey} (${other.title}) changed ${touched.join(", ")}`);
  }
  const since = `the joined tree differs from what task ${branch.taskKey} began with`;
  return [...merge.messages.map(readable), ...(others.length > 0 ? others : [since])].join("\n");
}

async function touchedBy(
  git: Git,
  gitDir: string,
  of: { base: Sha; commit: Sha; paths: readonly string[] },
): Promise<string[]> {
  const args = ["diff", "--name-only", "--no-renames", "-z", `${of.base}...${of.commit}`, "--", ...of.paths];
  return splitZ((await git.run(args, { gitDir })).stdout);
}

/**
 * Lists what the head has above the base. Asked the other way round (which of these commits is not
 * in the head), git gives up early where merges are dated before what they merge, as ours are, and
 * names commits that are in it.
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
