import { open } from "node:fs/promises";

/**
 * Waits until the names in a folder are on the disk: a new or a moved file can be lost in a power
 * cut until then, however well its content is kept. A folder that is not there has none, as that of
 * a ref which git has packed.
 */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  try {
    await folder?.sync();
  } finally {
    await folder?.close();
  }
}
