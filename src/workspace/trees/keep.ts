import { randomBytes } from "node:crypto";
import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import type { ExecResult, GuestClient } from "../../sandbox/port.ts";
import { receiveBundle } from "../authority/bundle.ts";
import { assertSha, commitSha, identityEnvironment, shaPattern } from "../authority/git.ts";
import { changesOf, type RawChange, withoutMode } from "../authority/history.ts";
import { moveRef } from "../authority/refs.ts";
import type { KeepRequest, KeepResult, Sha } from "../port.ts";
import { exactBytes, excludeRules } from "./excludes.ts";
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
import { refuseTree, TreeRefused } from "./refused-tree.ts";
import { assertDone, assertVolumePath, type Facts, factOf, readFacts, runInSandbox } from "./sandbox-git.ts";
import { type Authority, keepFolderOf, objectsFrom, withVolume } from "./volume.ts";

// K1. A tree's own `.git` never decides what is kept: not its refs, configuration or hooks, nor its
// absence. Its record of what setup left can only make an agent's own changes be discarded.
// K2. We use only a tree from the sandbox, after fsck, and make the commit ourselves.
// K3. In a tree that others also write, only the requested paths are read, sent and committed.
// K4. The same tree, base and request give the same SHA, so every step can be repeated at any time.

/** The largest pack of one attempt's new objects. */
const largestBundleBytes = 256 * 1024 * 1024;
const maxNestedRepositories = 100;
const maxRefusals = 200;
/** Limited, because git compares each odd path with every file it adds. */
const maxOddPaths = 1_000;

export interface KeepContext {
  readonly authority: Authority;
  /** The base's tree, and the dependency folders that it does not track itself. */
  readonly base: { readonly tree: Sha; readonly excluded: readonly string[] };
  crashPoint(name: string): Promise<void>;
}

/** The tree that the steps in the sandbox work on. */
export interface SandboxWork {
  readonly authority: Authority;
  readonly base: KeepContext["base"];
  readonly request: Pick<KeepRequest, "treePath" | "base" | "guest">;
  /** The environment for making a commit. */
  readonly env: Readonly<Record<string, string>>;
  /** This tree's `keep/<hash>`, created when the tree is opened and removed when it is closed. */
  readonly folder: string;
  /** The name of this call's files in the folder, so that concurrent calls do not collide. */
  readonly name: string;
  readonly own: OwnPaths;
}

interface Keeping extends KeepContext, SandboxWork {
  readonly request: KeepRequest;
  readonly refused: string[];
}

/** Commits a tree's content; see the port. */
export async function commitTree(context: KeepContext, request: KeepRequest): Promise<KeepResult> {
  const own = ownPaths(request.only ?? null);
  const env = {
    ...identityEnvironment(request.author, request.date),
    KEEP_MESSAGE: messageOf(request),
    KEEP_MADE: (request.made ?? []).join("\n"),
  };
  return keep({ ...context, ...keepPlaceOf(request.treePath), request, env, own, refused: [] }).catch(
    (error: unknown) => {
      if (!(error instanceof TreeRefused)) throw error;
      return { commit: null, changed: [], refused: [error.message] };
    },
  );
}

/** Returns where the steps for a tree put their files. */
export function keepPlaceOf(treePath: string): Pick<SandboxWork, "folder" | "name"> {
  return { folder: keepFolderOf(assertVolumePath(treePath)), name: randomBytes(6).toString("hex") };
}

async function keep(keeping: Keeping): Promise<KeepResult> {
  const { base, refused, own } = keeping;
  const firstTree = await commitInSandbox(keeping);
  let kept = firstTree === base.tree ? null : await receiveTree(keeping, firstTree);
  const isForeign = ({ path, from }: RawChange): boolean => !own.has(path) || (from !== null && !own.has(from));
  const repositories = (kept?.changed ?? []).filter(isRepository).map((change) => change.path);
  const foreign = (kept?.changed ?? []).filter(isForeign).map((change) => change.path);
  if (repositories.length > 0 || foreign.length > 0) {
    refused.push(...repositories.map((path) => `${path}: a git repository inside the tree; it is left out`));
    const secondTree = await leaveOut(keeping, [...repositories, ...foreign]);
    kept = secondTree === base.tree ? null : await receiveTree(keeping, secondTree);
    const remaining = (kept?.changed ?? []).filter((change) => isRepository(change) || isForeign(change));
    if (remaining.length > 0) {
      const paths = remaining.map((change) => change.path).join(", ");
      throw new WavesmithError("guest-protocol", `the sandbox committed paths it had to leave out: ${paths}`);
    }
  }
  if (kept !== null) await putRef(keeping, kept.commit);
  const shownRefusals = refused.slice(0, maxRefusals);
  if (refused.length > shownRefusals.length) shownRefusals.push(`and ${refused.length - shownRefusals.length} more`);
  return { commit: kept?.commit ?? null, changed: (kept?.changed ?? []).map(withoutMode), refused: shownRefusals };
}

const isRepository = (change: RawChange): boolean => change.mode === "160000";

function runScript(work: SandboxWork, script: string, args: readonly string[], stdin?: string): Promise<ExecResult> {
  const { folder, name, request, env } = work;
  return runInSandbox(request.guest, {
    script,
    args: [request.treePath, folder, name, ...args],
    writable: [request.treePath, folder],
    env,
    ...(stdin === undefined ? {} : { stdin }),
  });
}

/** Runs a later step in the sandbox and returns the facts it prints. */
export async function runStep(
  work: SandboxWork,
  script: string,
  args: readonly string[],
  stdin: string,
): Promise<Facts> {
  const result = await runScript(work, script, args, stdin);
  assertDone(result, `keeping the tree ${work.request.treePath}`);
  return readFacts(result.stdout);
}

/**
 * Runs the first step in the sandbox, which builds the index from the base. Fails with `not-found`
 * when there is no tree.
 */
async function beginStep(work: SandboxWork, script: string): Promise<Facts> {
  const { authority, base, request } = work;
  const objects = objectsFrom(`${work.folder}/git`);
  const rules = excludeRules(base.excluded);
  const args = [assertSha(request.base), base.tree, objects, base.excluded.join(" "), rules, exactBytes];
  const stdout = await withVolume(authority, request.guest, {
    sha: request.base,
    activity: `keeping the tree ${request.treePath}`,
    run: async () => {
      const result = await runScript(work, script, args);
      if (result.exitCode !== lacksTree) return result;
      throw new WavesmithError("not-found", `there is no tree ${request.treePath} on the volume`);
    },
  });
  return readFacts(stdout);
}

/** Writes the tree's content as objects and a bundle in the keep folder. Returns its SHA. */
async function commitInSandbox(keeping: Keeping): Promise<Sha> {
  if (keeping.request.only !== undefined) return commitOwn(keeping);
  const facts = await beginStep(keeping, keepScript);
  const odd = oddPathsOf(facts);
  const bySetup = new Set(facts.filter(([key]) => key === "by-setup").map(([, path]) => path));
  if (odd.length > 0) return addAround(keeping, { odd, bySetup, limit: limitOf(facts) });
  noteLeftFiles(keeping, facts, new Set());
  return treeOfFacts(facts);
}

const oddPathsOf = (facts: Facts): string[] =>
  facts.filter(([key]) => key === "odd").map(([, path]) => path.replace(/^\.\//, ""));

/** Describes the size above which files are left out. */
function limitOf(facts: Facts): string {
  const most = Number(factOf(facts, "most") ?? largestFileBytes);
  if (most >= largestFileBytes) return `larger than ${largestFileBytes >> 20} MiB`;
  const all = `larger than ${most >> 10} KiB, and the changes exceed ${largestTreeBytes / 2 ** 30} GiB in total`;
  return `${all}, counting holes in sparse files`;
}

/** The caller's own paths that differ from the base: files, and folders that are repositories. */
export interface OwnChanges {
  readonly files: string[];
  readonly repositories: string[];
  /** Repositories and files above the limit, the caller's own or not. */
  readonly odd: string[];
  /** Describes the limit that such a file exceeds. */
  readonly limit: string;
}

/**
 * Lists the caller's own changes in a tree that others also write. Fails with `not-found` when
 * there is no tree.
 */
export async function listOwn(work: SandboxWork): Promise<OwnChanges> {
  const facts = await beginStep(work, listScript);
  const changed = [...new Set(facts.filter(([key]) => key === "changed").map(([, path]) => path))];
  const folders = changed.filter((path) => path.endsWith("/")).map((path) => path.slice(0, -1));
  return {
    files: changed.filter((path) => !path.endsWith("/") && work.own.has(path)),
    repositories: folders.filter(work.own.hasFolder),
    odd: oddPathsOf(facts),
    limit: limitOf(facts),
  };
}

/** Adds only the caller's changes, because others' files may be gone by the time git reads them. */
async function commitOwn(keeping: Keeping): Promise<Sha> {
  const { files, repositories, odd, limit } = await listOwn(keeping);
  const isOdd = new Set(odd);
  const large = files.filter((path) => isOdd.has(path));
  for (const path of large) keeping.refused.push(`${path}: ${limit}`);
  // A name that is not valid UTF-8 arrives damaged.
  const nameless = files.filter((path) => path.includes("\uFFFD"));
  for (const path of nameless) keeping.refused.push(`${path}: its name is not UTF-8`);
  const plain = files.filter((path) => !isOdd.has(path) && !nameless.includes(path));
  if (plain.length > 0) {
    const facts = await runStep(keeping, addPathsScript, [], joinZ(plain));
    noteLeftFiles(keeping, facts, isOdd);
  }
  const folders = odd.filter((path) => path.endsWith("/.git")).map((path) => path.slice(0, -"/.git".length));
  const nested = folders.filter((path) => repositories.some((outer) => `${path}/`.startsWith(`${outer}/`)));
  await addNested(keeping, nested, odd);
  return leaveOut(keeping, []);
}

function treeOfFacts(facts: Facts): Sha {
  const tree = factOf(facts, "tree");
  if (tree !== null && shaPattern.test(tree)) return tree;
  throw new WavesmithError("guest-protocol", "the sandbox did not say which tree it wrote");
}

function noteLeftFiles(keeping: Keeping, facts: Facts, known: ReadonlySet<string>): void {
  for (const [key, path] of facts) {
    if (key !== "left" || path === "" || known.has(path.replace(/\/$/, "")) || !keeping.own.has(path)) continue;
    keeping.refused.push(`${path}: git cannot read it or cannot keep a file of this name or kind`);
  }
}

/** Adds a tree that has repositories in it or files above the limit, without those setup made. */
async function addAround(
  keeping: Keeping,
  { odd, bySetup, limit }: { odd: readonly string[]; bySetup: ReadonlySet<string>; limit: string },
): Promise<Sha> {
  const paths = odd.map((path) => path.replace(/\/\.git$/, ""));
  const ignored = new Set((await runStep(keeping, findIgnoredScript, [], joinZ(paths))).map(([, path]) => path));
  const oddPaths = odd.filter((_, index) => !ignored.has(itemAt(paths, index)) && !bySetup.has(itemAt(paths, index)));
  if (oddPaths.length > maxOddPaths) return keepNothing(keeping, { odd: oddPaths, limit });
  const nested = oddPaths.filter((path) => path.endsWith("/.git")).map((path) => path.slice(0, -"/.git".length));
  const large = oddPaths.filter((path) => !path.endsWith("/.git"));
  const leftOut = [...nested, ...large, ...bySetup];
  const facts = await runStep(keeping, addScript, [], pathspecsWithout(leftOut));
  noteLeftFiles(keeping, facts, new Set(leftOut));
  for (const path of large) keeping.refused.push(`${path}: ${limit}`);
  await addNested(keeping, nested, large);
  return leaveOut(keeping, []);
}

function keepNothing(keeping: Keeping, { odd, limit }: { odd: readonly string[]; limit: string }): Sha {
  const description = `${odd.length} paths such as ${odd[0]} are ${limit}, or git repositories`;
  keeping.refused.push(`${description}; with more than ${maxOddPaths} of these, nothing of the tree is kept`);
  return keeping.base.tree;
}

/** Adds outer repositories first, so that an inner one replaces what was added with the outer. */
async function addNested(keeping: Keeping, nested: readonly string[], large: readonly string[]): Promise<void> {
  const { request, refused } = keeping;
  const byDepth = [...nested].sort((a, b) => a.split("/").length - b.split("/").length);
  for (const [index, path] of byDepth.entries()) {
    if (index >= maxNestedRepositories) {
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
  return treeOfFacts(facts);
}

function pathspecsWithout(paths: readonly string[]): string {
  return joinZ([".", ...paths.map((path) => `:(exclude,literal)${path}`)]);
}

export function joinZ(parts: readonly string[]): string {
  return parts.map((part) => `${part}\0`).join("");
}

/** Brings the tree to the authority and commits it there. */
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

/** Returns the tree's commit: the sandbox's if it is exactly the expected one, or a new one. */
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
    const packed = `${size >> 20} MiB packed, above the limit of ${largestBundleBytes >> 20} MiB`;
    throw new WavesmithError("unsupported", `the work in ${keeping.request.treePath} takes ${packed}`, {
      remedy: "add large generated files to .gitignore",
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
  // Git would end the message at a NUL.
  return `${request.message.replaceAll("\0", "").trimEnd()}\n`;
}
