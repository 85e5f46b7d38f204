import { randomBytes } from "node:crypto";
import { WavesmithError } from "../domain/errors.ts";
import type { ExecResult, GuestClient } from "../sandbox/port.ts";
import { receiveBundle } from "./bundle.ts";
import { exactBytes, excludeRules } from "./excludes.ts";
import { assertSha, commitSha, identityEnvironment, shaPattern } from "./git.ts";
import { changesOf, type RawChange, withoutMode } from "./history.ts";
import {
  addNestedScript,
  addScript,
  findIgnoredScript,
  finishScript,
  keepScript,
  lacksTree,
  largestFileBytes,
} from "./keep-scripts.ts";
import type { KeepRequest, KeepResult, Sha } from "./port.ts";
import { moveRef } from "./refs.ts";
import { assertDone, assertVolumePath, type Facts, factOf, readFacts, runInSandbox } from "./sandbox-git.ts";
import { type Authority, keepFolderOf, objectsFrom, withVolume } from "./volume.ts";

// K1. Nothing of a tree's own `.git` decides what is kept: not its refs, its configuration, its hooks, nor that it is there.
// K2. Of what the sandbox sends only a tree is used, and only after fsck; the commit around it is made here.
// K3. The same tree, base and request give the same SHA, so everything here can be done again at any point.

/** The most one attempt's new objects may weigh, packed. */
const largestBundleBytes = 256 * 1024 * 1024;
const mostNestedRepositories = 100;
const mostRefusals = 200;

export interface KeepContext {
  readonly authority: Authority;
  /** The base's tree, and the dependency folders it does not have as its own. */
  readonly base: { readonly tree: Sha; readonly excluded: readonly string[] };
  crashPoint(name: string): Promise<void>;
}

interface Keeping extends KeepContext {
  readonly request: KeepRequest;
  /** `keep/<hash>`: this tree's, made when it was opened, removed when it is closed. */
  readonly folder: string;
  /** The name of this call's files there: two calls at once do not meet. */
  readonly name: string;
  readonly refused: string[];
}

/** Commits what the tree holds; see the port. */
export async function keepTree(context: KeepContext, request: KeepRequest): Promise<KeepResult> {
  const folder = keepFolderOf(assertVolumePath(request.treePath));
  return keep({ ...context, request, folder, name: randomBytes(6).toString("hex"), refused: [] });
}

async function keep(keeping: Keeping): Promise<KeepResult> {
  const { base, refused } = keeping;
  const first = await commitInSandbox(keeping);
  let kept = first === base.tree ? null : await receiveTree(keeping, first);
  const inner = (kept?.changed ?? []).filter(isRepository).map((change) => change.path);
  if (inner.length > 0) {
    refused.push(...inner.map((path) => `${path}: a git repository inside the tree; it is left out`));
    const second = await leaveOut(keeping, inner);
    kept = second === base.tree ? null : await receiveTree(keeping, second);
    if (kept?.changed.some(isRepository))
      throw new WavesmithError("guest-protocol", "the sandbox kept what it was told to leave out");
  }
  if (kept !== null) await putRef(keeping, kept.commit);
  const shown = refused.slice(0, mostRefusals);
  if (refused.length > shown.length) shown.push(`and ${refused.length - shown.length} more`);
  return { commit: kept?.commit ?? null, changed: (kept?.changed ?? []).map(withoutMode), refused: shown };
}

const isRepository = (change: RawChange): boolean => change.mode === "160000";

function run(keeping: Keeping, script: string, args: readonly string[], stdin?: string): Promise<ExecResult> {
  const { folder, name, request } = keeping;
  return runInSandbox(request.guest, {
    script,
    args: [request.treePath, folder, name, ...args],
    writable: [request.treePath, folder],
    env: { ...identityEnvironment(request.author, request.date), KEEP_MESSAGE: messageOf(request) },
    ...(stdin === undefined ? {} : { stdin }),
  });
}

async function runStep(keeping: Keeping, script: string, args: readonly string[], stdin: string): Promise<Facts> {
  const result = await run(keeping, script, args, stdin);
  assertDone(result, `keeping the tree ${keeping.request.treePath}`);
  return readFacts(result.stdout);
}

/** Writes the tree's content as objects and a bundle in the keep folder. Returns the content's SHA. */
async function commitInSandbox(keeping: Keeping): Promise<Sha> {
  const { authority, base, request } = keeping;
  const objects = objectsFrom(`${keeping.folder}/git`);
  const rules = excludeRules(base.excluded);
  const args = [assertSha(request.base), base.tree, objects, base.excluded.join(" "), rules, exactBytes];
  const stdout = await withVolume(authority, request.guest, {
    sha: request.base,
    doing: `keeping the tree ${request.treePath}`,
    run: async () => {
      const result = await run(keeping, keepScript, args);
      if (result.exitCode !== lacksTree) return result;
      throw new WavesmithError("not-found", `there is no tree ${request.treePath} on the volume`);
    },
  });
  const facts = readFacts(stdout);
  const odd = facts.filter(([key]) => key === "odd").map(([, path]) => path.replace(/^\.\//, ""));
  if (odd.length > 0) return addAround(keeping, odd);
  noteLeft(keeping, facts, new Set());
  return treeIn(facts);
}

function treeIn(facts: Facts): Sha {
  const tree = factOf(facts, "tree");
  if (tree !== null && shaPattern.test(tree)) return tree;
  throw new WavesmithError("guest-protocol", "the sandbox did not say which tree it wrote");
}

function noteLeft(keeping: Keeping, facts: Facts, known: ReadonlySet<string>): void {
  for (const [key, path] of facts) {
    if (key !== "left" || path === "" || known.has(path.replace(/\/$/, ""))) continue;
    keeping.refused.push(`${path}: git cannot read it or cannot keep a file of this name or kind`);
  }
}

/** Adds a tree that has repositories in it or files above the limit. */
async function addAround(keeping: Keeping, odd: readonly string[]): Promise<Sha> {
  const asked = odd.map((path) => path.replace(/\/\.git$/, ""));
  const ignored = new Set((await runStep(keeping, findIgnoredScript, [], joinZ(asked))).map(([, path]) => path));
  const kept = odd.filter((_, index) => !ignored.has(asked[index]!));
  const nested = kept.filter((path) => path.endsWith("/.git")).map((path) => path.slice(0, -"/.git".length));
  const large = kept.filter((path) => !path.endsWith("/.git"));
  const facts = await runStep(keeping, addScript, [], pathspecsWithout([...nested, ...large]));
  noteLeft(keeping, facts, new Set([...nested, ...large]));
  for (const path of large) keeping.refused.push(`${path}: larger than ${largestFileBytes >> 20} MiB`);
  await addNested(keeping, nested, large);
  return leaveOut(keeping, []);
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

function joinZ(parts: readonly string[]): string {
  return parts.map((part) => `${part}\0`).join("");
}

/** Brings the tree to the authority and makes the commit there. */
async function receiveTree(keeping: Keeping, tree: Sha): Promise<{ commit: Sha; changed: RawChange[] }> {
  const { request, authority } = keeping;
  const { git, gitDir } = authority;
  const data = await fetchBundle(keeping, request.guest);
  await keeping.crashPoint("keep.bundled");
  const tip = await receiveBundle(git, gitDir, { data, base: request.base });
  await keeping.crashPoint("keep.received");
  const commit = await makeCommit(keeping, tree, tip);
  return { commit, changed: await changesOf(git, gitDir, request.base, commit) };
}

/** The commit around the tree: the sandbox's when that is exactly the one it should have made, else made here. */
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
