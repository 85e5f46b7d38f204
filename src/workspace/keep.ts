import { randomBytes } from "node:crypto";
import { WavesmithError } from "../domain/errors.ts";
import type { ExecResult, GuestClient } from "../sandbox/port.ts";
import { receiveBundle } from "./bundle.ts";
import { exactBytes, excludeRules } from "./excludes.ts";
import { assertSha, commitSha, identityEnvironment, shaPattern } from "./git.ts";
import { changesOf, type RawChange, withoutMode } from "./history.ts";
import {
  addNestedScript,
  addPathsScript,
  addScript,
  findIgnoredScript,
  finishScript,
  keepScript,
  lacksTree,
  largestFileBytes,
  largestTreeBytes,
  listScript,
} from "./keep-scripts.ts";
import { type OwnPaths, ownPaths } from "./own-paths.ts";
import type { KeepRequest, KeepResult, Sha } from "./port.ts";
import { moveRef } from "./refs.ts";
import { refuseTree, TreeRefused } from "./refused-tree.ts";
import { assertDone, assertVolumePath, type Facts, factOf, readFacts, runInSandbox } from "./sandbox-git.ts";
import { type Authority, keepFolderOf, objectsFrom, withVolume } from "./volume.ts";

// K1. Nothing of a tree's own `.git` decides what is kept: not its refs, its configuration, its
// hooks, nor that it is there.
// K2. Of what the sandbox sends only a tree is used, and only after fsck; the commit around it is
// made here.
// K3. Of a tree that others write at the same time only what was asked for is read, sent and
// committed.
// K4. The same tree, base and request give the same SHA, so everything here can be done again at
// any point.

/** The most one attempt's new objects may weigh, packed. */
const largestBundleBytes = 256 * 1024 * 1024;
const mostNestedRepositories = 100;
const mostRefusals = 200;
/** git compares each of them with each file it adds. */
const mostOdd = 1_000;

export interface KeepContext {
  readonly authority: Authority;
  /** The base's tree, and the dependency folders it does not have as its own. */
  readonly base: { readonly tree: Sha; readonly excluded: readonly string[] };
  crashPoint(name: string): Promise<void>;
}

/** What the steps in the sandbox are about. */
export interface AtWork {
  readonly authority: Authority;
  readonly base: KeepContext["base"];
  readonly request: Pick<KeepRequest, "treePath" | "base" | "guest">;
  /** What a commit is made with. */
  readonly env: Readonly<Record<string, string>>;
  /** `keep/<hash>`: this tree's, made when it was opened, removed when it is closed. */
  readonly folder: string;
  /** The name of this call's files there: two calls at once do not meet. */
  readonly name: string;
  readonly own: OwnPaths;
}

interface Keeping extends KeepContext, AtWork {
  readonly request: KeepRequest;
  readonly refused: string[];
}

/** Commits what the tree holds; see the port. */
export async function keepTree(context: KeepContext, request: KeepRequest): Promise<KeepResult> {
  const own = ownPaths(request.only ?? null);
  const env = { ...identityEnvironment(request.author, request.date), KEEP_MESSAGE: messageOf(request) };
  return keep({ ...context, ...placeOf(request.treePath), request, env, own, refused: [] }).catch((error: unknown) => {
    if (!(error instanceof TreeRefused)) throw error;
    return { commit: null, changed: [], refused: [error.message] };
  });
}

/** Where the steps for a tree put their files. */
export function placeOf(treePath: string): Pick<AtWork, "folder" | "name"> {
  return { folder: keepFolderOf(assertVolumePath(treePath)), name: randomBytes(6).toString("hex") };
}

async function keep(keeping: Keeping): Promise<KeepResult> {
  const { base, refused, own } = keeping;
  const first = await commitInSandbox(keeping);
  let kept = first === base.tree ? null : await receiveTree(keeping, first);
  const isForeign = ({ path, from }: RawChange): boolean => !own.has(path) || (from !== null && !own.has(from));
  const inner = (kept?.changed ?? []).filter(isRepository).map((change) => change.path);
  const foreign = (kept?.changed ?? []).filter(isForeign).map((change) => change.path);
  if (inner.length > 0 || foreign.length > 0) {
    refused.push(...inner.map((path) => `${path}: a git repository inside the tree; it is left out`));
    const second = await leaveOut(keeping, [...inner, ...foreign]);
    kept = second === base.tree ? null : await receiveTree(keeping, second);
    const still = (kept?.changed ?? []).filter((change) => isRepository(change) || isForeign(change));
    if (still.length > 0) {
      const paths = still.map((change) => change.path).join(", ");
      throw new WavesmithError("guest-protocol", `the sandbox kept what it was told to leave out: ${paths}`);
    }
  }
  if (kept !== null) await putRef(keeping, kept.commit);
  const shown = refused.slice(0, mostRefusals);
  if (refused.length > shown.length) shown.push(`and ${refused.length - shown.length} more`);
  return { commit: kept?.commit ?? null, changed: (kept?.changed ?? []).map(withoutMode), refused: shown };
}

const isRepository = (change: RawChange): boolean => change.mode === "160000";

function run(work: AtWork, script: string, args: readonly string[], stdin?: string): Promise<ExecResult> {
  const { folder, name, request, env } = work;
  return runInSandbox(request.guest, {
    script,
    args: [request.treePath, folder, name, ...args],
    writable: [request.treePath, folder],
    env,
    ...(stdin === undefined ? {} : { stdin }),
  });
}

/** One step in the sandbox that follows the first. Returns what it printed. */
export async function runStep(work: AtWork, script: string, args: readonly string[], stdin: string): Promise<Facts> {
  const result = await run(work, script, args, stdin);
  assertDone(result, `keeping the tree ${work.request.treePath}`);
  return readFacts(result.stdout);
}

/**
 * The first step in the sandbox, which makes the index from the base. Fails with `not-found` when
 * there is no tree.
 */
async function beginStep(work: AtWork, script: string): Promise<Facts> {
  const { authority, base, request } = work;
  const objects = objectsFrom(`${work.folder}/git`);
  const rules = excludeRules(base.excluded);
  const args = [assertSha(request.base), base.tree, objects, base.excluded.join(" "), rules, exactBytes];
  const stdout = await withVolume(authority, request.guest, {
    sha: request.base,
    doing: `keeping the tree ${request.treePath}`,
    run: async () => {
      const result = await run(work, script, args);
      if (result.exitCode !== lacksTree) return result;
      throw new WavesmithError("not-found", `there is no tree ${request.treePath} on the volume`);
    },
  });
  return readFacts(stdout);
}

/**
 * Writes the tree's content as objects and a bundle in the keep folder. Returns the content's SHA.
 */
async function commitInSandbox(keeping: Keeping): Promise<Sha> {
  if (keeping.request.only !== undefined) return commitOwn(keeping);
  const facts = await beginStep(keeping, keepScript);
  const odd = oddIn(facts);
  if (odd.length > 0) return addAround(keeping, { odd, limit: limitIn(facts) });
  noteLeft(keeping, facts, new Set());
  return treeIn(facts);
}

const oddIn = (facts: Facts): string[] =>
  facts.filter(([key]) => key === "odd").map(([, path]) => path.replace(/^\.\//, ""));

/** Above which size files are left out, in words. */
function limitIn(facts: Facts): string {
  const most = Number(factOf(facts, "most") ?? largestFileBytes);
  if (most >= largestFileBytes) return `larger than ${largestFileBytes >> 20} MiB`;
  const all = `larger than ${most >> 10} KiB, and all that changed is above ${largestTreeBytes / 2 ** 30} GiB`;
  return `${all}, holes of sparse files included`;
}

/** One's own paths that differ from the base: files, and folders that are repositories. */
export interface OwnChanges {
  readonly files: string[];
  readonly repositories: string[];
  /** Repositories and files above the limit, one's own or not. */
  readonly odd: string[];
  /** What such a file is, in words. */
  readonly limit: string;
}

/**
 * Looks for one's own changes in a tree that others write meanwhile. Fails with `not-found` when
 * there is no tree.
 */
export async function listOwn(work: AtWork): Promise<OwnChanges> {
  const facts = await beginStep(work, listScript);
  const changed = [...new Set(facts.filter(([key]) => key === "changed").map(([, path]) => path))];
  const folders = changed.filter((path) => path.endsWith("/")).map((path) => path.slice(0, -1));
  return {
    files: changed.filter((path) => !path.endsWith("/") && work.own.has(path)),
    repositories: folders.filter(work.own.hasFolder),
    odd: oddIn(facts),
    limit: limitIn(facts),
  };
}

/**
 * Adds one's own changes alone: what others are writing may be gone by the time git looks at it.
 */
async function commitOwn(keeping: Keeping): Promise<Sha> {
  const { files, repositories, odd, limit } = await listOwn(keeping);
  const isOdd = new Set(odd);
  const large = files.filter((path) => isOdd.has(path));
  for (const path of large) keeping.refused.push(`${path}: ${limit}`);
  // What is no text has lost its bytes on the way here.
  const nameless = files.filter((path) => path.includes("\uFFFD"));
  for (const path of nameless) keeping.refused.push(`${path}: its name is not UTF-8`);
  const plain = files.filter((path) => !isOdd.has(path) && !nameless.includes(path));
  if (plain.length > 0) {
    const facts = await runStep(keeping, addPathsScript, [], joinZ(plain));
    noteLeft(keeping, facts, isOdd);
  }
  const folders = odd.filter((path) => path.endsWith("/.git")).map((path) => path.slice(0, -"/.git".length));
  const nested = folders.filter((path) => repositories.some((outer) => `${path}/`.startsWith(`${outer}/`)));
  await addNested(keeping, nested, odd);
  return leaveOut(keeping, []);
}

function treeIn(facts: Facts): Sha {
  const tree = factOf(facts, "tree");
  if (tree !== null && shaPattern.test(tree)) return tree;
  throw new WavesmithError("guest-protocol", "the sandbox did not say which tree it wrote");
}

function noteLeft(keeping: Keeping, facts: Facts, known: ReadonlySet<string>): void {
  for (const [key, path] of facts) {
    if (key !== "left" || path === "" || known.has(path.replace(/\/$/, "")) || !keeping.own.has(path)) continue;
    keeping.refused.push(`${path}: git cannot read it or cannot keep a file of this name or kind`);
  }
}

/** Adds a tree that has repositories in it or files above the limit. */
async function addAround(keeping: Keeping, { odd, limit }: { odd: readonly string[]; limit: string }): Promise<Sha> {
  const asked = odd.map((path) => path.replace(/\/\.git$/, ""));
  const ignored = new Set((await runStep(keeping, findIgnoredScript, [], joinZ(asked))).map(([, path]) => path));
  const kept = odd.filter((_, index) => !ignored.has(asked[index]!));
  if (kept.length > mostOdd) return keepNothing(keeping, { odd: kept, limit });
  const nested = kept.filter((path) => path.endsWith("/.git")).map((path) => path.slice(0, -"/.git".length));
  const large = kept.filter((path) => !path.endsWith("/.git"));
  const facts = await runStep(keeping, addScript, [], pathspecsWithout([...nested, ...large]));
  noteLeft(keeping, facts, new Set([...nested, ...large]));
  for (const path of large) keeping.refused.push(`${path}: ${limit}`);
  await addNested(keeping, nested, large);
  return leaveOut(keeping, []);
}

function keepNothing(keeping: Keeping, { odd, limit }: { odd: readonly string[]; limit: string }): Sha {
  const what = `${odd.length} paths such as ${odd[0]} are ${limit}, or git repositories`;
  keeping.refused.push(`${what}; above ${mostOdd} of these nothing of the tree is kept`);
  return keeping.base.tree;
}

/** Outer repositories first, so that an inner one replaces what the outer's turn left of it. */
async function addNested(keeping: Keeping, nested: readonly string[], large: readonly string[]): Promise<void> {
  const { request, refused } = keeping;
  const byDepth = [...nested].sort((a, b) => a.split("/").length - b.split("/").length);
  for (const [index, path] of byDepth.entries()) {
    if (index >= mostNestedRepositories) {
      refused.push(`${path}: a git repository inside the tree; it is left out`);
      continue;
    }
    const inside = [...large, ...nested].filter((other) => other.startsWith(`${path}/`));
    const pathspecs = pathspecsWithout(inside.map((other) => other.slice(path.length + 1)));
    await runStep(keeping, addNestedScript, [request.base, path], pathspecs);
    refused.push(`${path}: a git repository inside the tree; its files are kept as plain files, its history is not`);
  }
}

async function leaveOut(keeping: Keeping, paths: readonly string[]): Promise<Sha> {
  const facts = await runStep(keeping, finishScript, [keeping.request.base, keeping.base.tree], joinZ(paths));
  return treeIn(facts);
}

function pathspecsWithout(paths: readonly string[]): string {
  return joinZ([".", ...paths.map((path) => `:(exclude,literal)${path}`)]);
}

export function joinZ(parts: readonly string[]): string {
  return parts.map((part) => `${part}\0`).join("");
}

/** Brings the tree to the authority and makes the commit there. */
async function receiveTree(keeping: Keeping, tree: Sha): Promise<{ commit: Sha; changed: RawChange[] }> {
  const { request, authority } = keeping;
  const { git, gitDir } = authority;
  const data = await fetchBundle(keeping, request.guest);
  await keeping.crashPoint("keep.bundled");
  const tip = await receiveBundle(git, gitDir, { data, base: request.base }).catch((error: unknown) =>
    refuseTree(authority, { data, ref: request.ref }, error),
  );
  await keeping.crashPoint("keep.received");
  const commit = await makeCommit(keeping, tree, tip);
  return { commit, changed: await changesOf(git, gitDir, request.base, commit) };
}

/**
 * The commit around the tree: the sandbox's when that is exactly the one it should have made, else
 * made here.
 */
async function makeCommit(keeping: Keeping, tree: Sha, received: Sha): Promise<Sha> {
  const { request, authority } = keeping;
  const { author, base: parent, date } = request;
  if (received === commitSha({ tree, parent, author, date, message: messageOf(request) })) return received;
  const env = identityEnvironment(request.author, request.date);
  const args = ["commit-tree", tree, "-p", request.base];
  return assertSha(await authority.git.text(args, { gitDir: authority.gitDir, env, input: messageOf(request) }));
}

async function fetchBundle(keeping: Keeping, guest: GuestClient): Promise<Buffer> {
  const path = `${keeping.folder}/${keeping.name}.bundle`;
  try {
    const data = await guest.readFile(path, { maxBytes: largestBundleBytes });
    if (data !== null) return data;
  } catch (error) {
    const size = (await guest.stat(path))?.sizeBytes ?? 0;
    if (size <= largestBundleBytes) throw error;
    const weight = `${size >> 20} MiB packed, above the limit of ${largestBundleBytes >> 20} MiB`;
    throw new WavesmithError("unsupported", `the work in ${keeping.request.treePath} weighs ${weight}`, {
      remedy: "have large generated files ignored by a .gitignore",
      cause: error,
    });
  }
  throw new WavesmithError("guest-protocol", `the sandbox made no bundle of ${keeping.request.treePath}`);
}

async function putRef(keeping: Keeping, commit: Sha): Promise<void> {
  const { request, authority } = keeping;
  const move = { ref: request.ref, to: commit, expected: null };
  if (!(await moveRef(authority.git, authority.gitDir, move))) {
    throw new WavesmithError("conflict", `${request.ref} is on another commit than the ${commit} kept for it`, {
      remedy: `look at it: git --git-dir ${authority.gitDir} log ${request.ref}`,
    });
  }
  await keeping.crashPoint("keep.moved");
}

function messageOf(request: KeepRequest): string {
  // A NUL ends a commit's message as git reads it.
  return `${request.message.replaceAll("\0", "").trimEnd()}\n`;
}
