import { createHash } from "node:crypto";
import { join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import { bundleRef, tarOfFile, writeBundle } from "../authority/bundle.ts";
import { assertSha, type Git, shaPattern } from "../authority/git.ts";
import { listFolders } from "../authority/history.ts";
import { resolveCommit } from "../authority/refs.ts";
import type { Reuse, Sha } from "../port.ts";
import { exactBytes, excludedFolders, excludeRules } from "./excludes.ts";
import { assertDone, assertVolumePath, factOf, readFacts, runInSandbox } from "./sandbox-git.ts";
import type { ScratchFolders } from "./scratch.ts";
import { emptyScript, lacksCommit, openTreeScript, takeBundleScript, tryCheckoutScript } from "./volume-scripts.ts";

// WV1. `repo` is a plain repository that only syncVolume changes; it is never pruned while trees
// borrow from it.
// WV2. A tree is its own repository: nothing an agent does to its `.git` affects other trees or our
// refs.
// WV3. Everything on the volume is expendable: an unusable `repo` is rebuilt with all refs of the
// authority.

export interface Authority {
  readonly git: Git;
  readonly gitDir: string;
  readonly scratch: ScratchFolders;
}

/** Brings the volume's `repo` to `sha`, rebuilding it if it is unusable. */
export async function syncVolume(authority: Authority, guest: GuestClient, sha: Sha): Promise<void> {
  const { git, gitDir } = authority;
  if ((await resolveCommit(git, gitDir, assertSha(sha))) === null) {
    throw new WavesmithError("not-found", `there is no commit ${sha} in ${gitDir}`);
  }
  const checkout = await runInSandbox(guest, { script: tryCheckoutScript, args: [sha], writable: ["repo"] });
  const facts = checkout.exitCode === 0 ? readFacts(checkout.stdout) : [];
  if (factOf(facts, "at") === sha) return;
  const remoteHead = factOf(facts, "has") ?? "";
  const have = shaPattern.test(remoteHead) ? await resolveCommit(git, gitDir, remoteHead) : null;
  if (have !== null && (await sendBundle(authority, guest, { sha, have, fresh: false }))) return;
  await rebuildVolume(authority, guest, sha);
}

/**
 * Rebuilds `repo` with every ref of the authority, so that trees that borrow objects have them
 * again.
 */
async function rebuildVolume(authority: Authority, guest: GuestClient, sha: Sha): Promise<void> {
  await sendBundle(authority, guest, { sha, have: null, fresh: true });
}

/** Sends a bundle. Returns false if an incremental one cannot be used; throws for a full one. */
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

/** Returns the `info/exclude` rules for trees opened at this commit. */
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
 * Opens a tree with one command in the sandbox; syncs or rebuilds the volume only if that fails.
 */
export async function openTree(authority: Authority, guest: GuestClient, open: OpenTree): Promise<void> {
  const run = () => runInSandbox(guest, openTreeCommand(open));
  await withVolume(authority, guest, { sha: open.sha, run, activity: `opening the tree ${open.treePath}` });
}

/** Runs a script that needs `sha` on the volume. If it lacks `sha`, syncs, then rebuilds `repo`. */
export async function withVolume(
  authority: Authority,
  guest: GuestClient,
  need: { sha: Sha; run: () => ReturnType<GuestClient["exec"]>; activity: string },
): Promise<string> {
  let result = await need.run();
  for (const repair of [syncVolume, rebuildVolume]) {
    if (result.exitCode !== lacksCommit) break;
    await repair(authority, guest, need.sha);
    result = await need.run();
  }
  assertDone(result, need.activity);
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
 * Returns the relative path from a repository's objects to repo's, valid wherever it is mounted.
 */
export function objectsFrom(gitDir: string): string {
  return `${"../".repeat(gitDir.split("/").length + 1)}repo/.git/objects`;
}

/** Returns the folder for commitTree's files of a tree: `keep/<hash>`. */
export function keepFolderOf(treePath: string): string {
  return `keep/${createHash("sha256").update(treePath).digest("hex").slice(0, 16)}`;
}

/** Removes a tree, even if an agent made its folders unreadable; does nothing if it is absent. */
export async function closeTree(guest: GuestClient, treePath: string): Promise<void> {
  const path = assertVolumePath(treePath);
  const removeTree = () => guest.remove(path, { recursive: true });
  const tree = removeTree().catch(async () => {
    // The script makes unwritable folders writable, after which the guest can remove the tree.
    assertDone(await runInSandbox(guest, { script: emptyScript, args: [path], writable: [path] }), `emptying ${path}`);
    await removeTree();
  });
  await Promise.all([tree, guest.remove(keepFolderOf(path), { recursive: true })]);
}
