import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createScratch } from "../trees/scratch.ts";
import { createGit } from "./git.ts";
import { bundleMain, unpackUpload } from "./source-bundle.ts";

/** Uploaded sources, for backups. */
export interface WholeUploads {
  /** Writes an uploaded source into a new file. */
  pack(gitDir: string, file: string): Promise<void>;
  /** Creates an uploaded source from such a file, as its upload did. */
  unpack(file: string, gitDir: string): Promise<void>;
}

/** Opens the uploaded sources of a data directory. `scratch` is an empty folder in it. */
export function openUploads(scratch: string, env: Readonly<Record<string, string | undefined>>): WholeUploads {
  const git = createGit({ home: join(scratch, "home"), env });
  const folders = createScratch(join(scratch, "uploads"));
  return {
    pack: (gitDir, file) => bundleMain(git, gitDir, file),
    async unpack(file, gitDir) {
      await mkdir(dirname(gitDir), { recursive: true, mode: 0o700 });
      await unpackUpload(git, folders, { file, to: gitDir });
    },
  };
}
