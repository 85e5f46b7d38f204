import { open } from "node:fs/promises";

/**
 * Flushes a folder's entries to disk. Until then a new or moved file can be lost in a power cut,
 * even if its content was flushed. Does nothing if the folder is missing, as that of a packed ref.
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
