import { createHash } from "node:crypto";
import { join } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import type { GuestClient } from "../sandbox/port.ts";
import { bundleRef, tarOfFile, writeBundle } from "./bundle.ts";
import { exactBytes, excludedFolders, excludeRules } from "./excludes.ts";
import { assertSha, type Git, shaPattern } from "./git.ts";
import { listFolders } from "./history.ts";
import type { Reuse, Sha } from "./port.ts";
import { resolveCommit } from "./refs.ts";
import { assertDone, assertVolumePath, factOf, readFacts, runInSandbox } from "./sandbox-git.ts";
import type { Scratch } from "./scratch.ts";
import { emptyScript, lacksCommit, openTreeScript, takeBundleScript, tryCheckoutScript } from "./volume-scripts.ts";

// V1. `repo` is a plain repository kept by syncVolume alone; nothing is ever pruned from it while
// trees borrow from it.
// V2. A tree is a repository of its own: whatever an agent does to its `.git` reaches no other tree
// and no ref of ours.
// V3. Nothing on the volume is needed: `repo` is rebuilt, with all refs of the authority, whenever
// it proves unusable.

export interface Authority {
  readonly git: Git;
  readonly gitDir: string;
  readonly scratch: Scratch;
}

/** Brings the volume's `repo` to `sha`; from nothing when what is there cannot be used. */
export async function syncVolume(authority: Authority, guest: GuestClient, sha: Sha): Promise<void> {
  const { git, gitDir } = authority;
  if ((await resolveCommit(git, gitDir, assertSha(sha))) === null) {
    throw new WavesmithError("not-found", `there is no commit ${sha} in ${gitDir}`);
  }
  const tried = await runInSandbox(guest, { script: tryCheckoutScript, args: [sha], writable: ["repo"] });
  const facts = tried.exitCode === 0 ? readFacts(tried.stdout) : [];
  if (factOf(facts, "at") === sha) return;
  const has = factOf(facts, "has") ?? "";
  const have = shaPattern.test(has) ? await resolveCommit(git, gitDir, has) : null;
  if (have !== null && (await sendBundle(authority, guest, { sha, have, fresh: false }))) return;
  await rebuildVolume(authority, guest, sha);
}

/**
 * Makes `repo` afresh, with every ref of the authority in it, so that trees that borrowed objects
 * have them again.
 */
async function rebuildVolume(authority: Authority, guest: GuestClient, sha: Sha): Promise<void> {
  await sendBundle(authority, guest, { sha, have: null, fresh: true });
}

/** False when an increment could not be taken; a full bundle that cannot be taken is a failure. */
async function sendBundle(
  authority: Authority,
  guest: GuestClient,
  send: { sha: Sha; have: Sha | null; fresh: boolean },
): Promise<boolean> {
  const { git, gitDir, scratch } = authority;
  return scratch.use(async (folder, name) => {
    const file = join(folder, "sync.bundle");
    await writeBundle(git, gitDir, { file, tip: send.sha, have: send.have });
    const received = `sync/${name}`;
    try {
      await guest.unpack(received, await tarOfFile(file, "sync.bundle"));
      const rules = await treeRules(authority, send.sha);
      const result = await runInSandbox(guest, {
        script: takeBundleScript,
        args: [send.sha, `${received}/sync.bundle`, bundleRef, send.fresh ? "1" : "0", rules, exactBytes],
        writable: ["repo", "sync"],
      });
      if (send.fresh) assertDone(result, `bringing commit ${send.sha} to the volume`);
      return result.exitCode === 0;
    } finally {
      await guest.remove(received, { recursive: true });
    }
  });
}

/** Rules for `info/exclude` of trees opened at this commit. */
async function treeRules(authority: Authority, sha: Sha): Promise<string> {
  return excludeRules(excludedFolders(await listFolders(authority.git, authority.gitDir, sha)));
}

export interface OpenTree {
  readonly treePath: string;
  readonly sha: Sha;
  readonly reuse: Reuse;
  readonly rules: string;
}

/**
 * Opens a tree with one command in the sandbox; syncs or rebuilds the volume only when that proves
 * it must be.
 */
export async function openTree(authority: Authority, guest: GuestClient, open: OpenTree): Promise<void> {
  const run = () => runInSandbox(guest, openTreeCommand(open));
  await withVolume(authority, guest, { sha: open.sha, run, doing: `opening the tree ${open.treePath}` });
}

/**
 * Runs a script that needs `sha` on the volume: as things are, else after a sync, else after a
 * rebuild.
 */
export async function withVolume(
  authority: Authority,
  guest: GuestClient,
  need: { sha: Sha; run: () => ReturnType<GuestClient["exec"]>; doing: string },
): Promise<string> {
  let result = await need.run();
  for (const mend of [syncVolume, rebuildVolume]) {
    if (result.exitCode !== lacksCommit) break;
    await mend(authority, guest, need.sha);
    result = await need.run();
  }
  assertDone(result, need.doing);
  return result.stdout;
}

function openTreeCommand(open: OpenTree) {
  const path = assertVolumePath(open.treePath);
  const keep = keepFolderOf(path);
  const objects = [objectsFrom(`${path}/.git`), objectsFrom(`${keep}/git`)];
  return {
    script: openTreeScript,
    args: [path, keep, assertSha(open.sha), reuseArgument(open.reuse), ...objects, open.rules, exactBytes],
    writable: [path, keep],
  };
}

const reuseArgument = (reuse: Reuse): string => (reuse === "since-boot" ? "boot" : reuse ? "1" : "0");

/**
 * The way from a repository's objects to those of `repo`, which hold wherever the volume is
 * mounted.
 */
export function objectsFrom(gitDir: string): string {
  return `${"../".repeat(gitDir.split("/").length + 1)}repo/.git/objects`;
}

/** Where keepTree puts what it makes for a tree: `keep/<hash>`. */
export function keepFolderOf(treePath: string): string {
  return `keep/${createHash("sha256").update(treePath).digest("hex").slice(0, 16)}`;
}

/** Removes a tree, also one whose folders an agent made unreadable; safe when absent. */
export async function closeTree(guest: GuestClient, treePath: string): Promise<void> {
  const path = assertVolumePath(treePath);
  const removeTree = () => guest.remove(path, { recursive: true });
  const tree = removeTree().catch(async () => {
    // What the guest cannot remove as it is, it can once the folders are its own to write again.
    assertDone(await runInSandbox(guest, { script: emptyScript, args: [path], writable: [path] }), `emptying ${path}`);
    await removeTree();
  });
  await Promise.all([tree, guest.remove(keepFolderOf(path), { recursive: true })]);
}
