import { mkdir, open, rename } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { syncFolder } from "./durable.ts";
import type { Authority } from "./volume.ts";

// What fsck refuses never becomes part of the authority, and is not thrown away either (W8): the
// bundle in which it came is kept beside the objects, for a person to look into.

/** The folder of such bundles, in the authority's own. */
const refusedFolder = "refused";

/** A tree that fsck refuses. The message says why, and where its bundle lies. */
export class TreeRefused extends Error {}

const fsckError = /(?:object|in \w+) [0-9a-f]{40}\b.*/;

/**
 * Keeps the bundle and throws `TreeRefused` when the failure is fsck's; throws the failure itself
 * otherwise.
 */
export async function refuseTree(
  { gitDir }: Authority,
  { data, ref }: { readonly data: Buffer; readonly ref: string },
  failure: unknown,
): Promise<never> {
  if (!(failure instanceof WavesmithError) || failure.code !== "git" || !/fsck error/.test(failure.message))
    throw failure;
  const folder = join(gitDir, refusedFolder);
  const name = `${ref.replace(/^refs\/(?:heads\/)?/, "").replaceAll("/", "-")}.bundle`;
  const file = join(folder, name);
  await mkdir(folder, { recursive: true });
  const handle = await open(`${file}.part`, "w", 0o600);
  try {
    await handle.writeFile(data);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.part`, file);
  await syncFolder(folder);
  await syncFolder(gitDir);
  const why = fsckError.exec(failure.message)?.[0].trim().slice(0, 300) ?? "fsck error";
  throw new TreeRefused(
    `git's fsck refuses its files (${why}); they are kept in ${refusedFolder}/${name} of the project's repository`,
  );
}
