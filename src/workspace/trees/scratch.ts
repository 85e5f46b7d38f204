import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Private folders for files before they are moved into place; removes those of dead processes. */
export interface ScratchFolders {
  /** Gives `work` an empty folder and its name, and removes it afterwards. */
  use<T>(work: (folder: string, name: string) => Promise<T>): Promise<T>;
}

/** Creates scratch folders named `<pid>-<random>` in `parent`. */
export function createScratch(parent: string): ScratchFolders {
  let swept: Promise<void> | null = null;
  return {
    async use(work) {
      swept ??= sweep(parent);
      await swept;
      const name = `${process.pid}-${randomBytes(8).toString("hex")}`;
      const folder = join(parent, name);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      try {
        return await work(folder, name);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

async function sweep(parent: string): Promise<void> {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  for (const name of await readdir(parent)) {
    const pid = Number(name.split("-")[0]);
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid))
      await rm(join(parent, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
