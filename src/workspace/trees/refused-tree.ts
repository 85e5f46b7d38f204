import { mkdir, open, rename } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { syncFolder } from "../authority/durable.ts";
import type { Authority } from "./volume.ts";

// Objects that fsck rejects never enter the authority, but are not thrown away either (W8): their
// bundle is kept beside the authority's objects, for a person to inspect.

/** The folder for rejected bundles, inside the authority. */
const refusedFolder = "refused";

/** A tree that fsck rejected. The message says why, and where its bundle is. */
export class TreeRefused extends Error {}

const fsckError = /(?:object|in \w+) [0-9a-f]{40}\b.*/;

/**
 * Keeps the bundle and throws `TreeRefused` if the failure is fsck's; rethrows any other failure.
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
    `git's fsck rejected its files (${why}); they are kept in ${refusedFolder}/${name} of the project's repository`,
  );
}
