import { createHash, randomBytes } from "node:crypto";
import { renameSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { parse, stringify } from "yaml";
import { parseSettings, type SettingFault, settingsFile, settingsText } from "../config/settings-file.ts";
import type { ShownSetting } from "../config/shown-settings.ts";
import { WavesmithError } from "../domain/errors.ts";

export type { ShownSetting } from "../config/shown-settings.ts";

/** The settings of a data directory: those in use, and the file. */
export interface SettingsView {
  readonly file: string;
  /** The file's text; empty if there is none. */
  readonly text: string;
  readonly tag: string;
  readonly items: readonly ShownSetting[];
  /** Whether the file has changed since it was read; the change takes effect at the next start. */
  readonly restartNeeded: boolean;
}

/** A version of the file, for `If-Match`. */
const settingsTag = (text: string): string => `"${createHash("sha256").update(text).digest("base64url").slice(0, 27)}"`;

interface Place {
  readonly dataDir: string;
  /** The settings that this process has read. */
  readonly settings: readonly ShownSetting[];
}

export function viewSettings({ dataDir, settings }: Place): SettingsView {
  const text = settingsText(dataDir);
  const { values } = parseSettings(text);
  const isRead = settings.every(({ name, value, source }) =>
    source === "environment" ? true : (values[name] ?? null) === (source === "file" ? value : null),
  );
  return { file: settingsFile(dataDir), text, tag: settingsTag(text), items: settings, restartNeeded: !isRead };
}

/**
 * Replaces the settings file with YAML or JSON. Returns the faults; if there are any, changes
 * nothing. Fails with `conflict` if the file no longer has this tag; a null tag skips that check.
 */
export async function writeSettings(
  { dataDir }: Pick<Place, "dataDir">,
  { text, format, tag }: { text: string; format: "yaml" | "json"; tag: string | null },
): Promise<readonly SettingFault[]> {
  const { faults } = parseSettings(text);
  if (faults.length > 0) return faults;
  const file = settingsFile(dataDir);
  const unfinished = `${file}.${process.pid}.${randomBytes(4).toString("hex")}`;
  try {
    // Text that begins with a brace is taken for JSON, although it may be YAML.
    await writeFile(unfinished, format === "json" ? stringify(parse(text)) : text, { mode: 0o600, flush: true });
    // Nothing may come between the comparison and the change.
    if (tag !== null && settingsTag(settingsText(dataDir)) !== tag) {
      throw new WavesmithError("conflict", "the settings have changed since you read them", {
        remedy: "read them again",
      });
    }
    renameSync(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
  return [];
}
