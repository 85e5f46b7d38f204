import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../faults.ts";

// Not with `recursive`: below a folder that was removed while somebody still holds it, as a volume
// is that was deleted under its guest, Node tries that for ever.

/** Makes a folder in one that is there, unless it exists. */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  await mkdir(path, { mode }).catch((error: unknown) => {
    if (systemCode(error) !== "EEXIST") throw error;
  });
}

/** Makes the folders `names` inside each other, the first one in `base`. */
export async function makeFolders(base: string, names: readonly string[]): Promise<void> {
  let path = base;
  for (const name of names) {
    path = join(path, name);
    await makeFolder(path);
  }
}
