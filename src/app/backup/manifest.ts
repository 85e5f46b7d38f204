import { z } from "zod";

const column = z.strictObject({ name: z.string(), type: z.string() });
const table = z.strictObject({ name: z.string(), columns: z.array(column), refersTo: z.array(z.string()) });

/** The first entry of a backup. */
export const manifestSchema = z.strictObject({
  /** Raised when older versions could no longer read it. */
  format: z.literal(1),
  createdAt: z.string(),
  /** The hashes of the migrations of its rows, in order. */
  migrations: z.array(z.string()),
  tables: z.array(table),
  /** The refs of each project's repository. */
  repositories: z.record(z.string(), z.record(z.string(), z.string())),
});
export type BackupManifest = z.infer<typeof manifestSchema>;

export const manifestName = "manifest.json";

/** Files of the data directory that belong in a backup. */
export const keptFiles = ["serve-key", "webhook-key"];
/** Folders of the data directory that do, without folders of their own. */
export const keptFolders = ["plans"];
