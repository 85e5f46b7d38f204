import type { Finding } from "../../domain/gate/finding.ts";
import type { Severity } from "../../domain/status.ts";
import type { ChangedFile } from "../../workspace/port.ts";
import type { CommitReader } from "../port.ts";

/**
 * A changed file with its text before and after; null where it is absent, binary, a link or too
 * large to read.
 */
export interface FileChange {
  readonly path: string;
  /** The path before the change: the old name after a rename, null for a new file. */
  readonly formerPath: string | null;
  readonly deleted: boolean;
  readonly before: string | null;
  readonly after: string | null;
  readonly added: readonly AddedLine[];
  readonly binary: boolean;
  readonly executable: boolean;
  /** Whether it is a symbolic link or a nested repository. */
  readonly isLink: boolean;
  readonly sizeBytes: number;
  readonly formerSizeBytes: number;
  /** The first bytes of the new content, which reveal its kind; empty when unread. */
  readonly head: Buffer;
}

export interface AddedLine {
  /** Counts from 1. */
  readonly line: number;
  readonly text: string;
}

type Entries = ReadonlyMap<string, { mode: string; sizeBytes: number }>;

const readsAtOnce = 8;
const linkModes = ["120000", "160000"];

/** Reads both sides of every changed file, eight at once. */
export async function readChanges(
  changed: readonly ChangedFile[],
  before: CommitReader,
  after: CommitReader,
): Promise<FileChange[]> {
  const [formerly, now] = [toEntries(await before.list()), toEntries(await after.list())];
  const changes: FileChange[] = [];
  for (let start = 0; start < changed.length; start += readsAtOnce) {
    const part = changed.slice(start, start + readsAtOnce);
    changes.push(...(await Promise.all(part.map((file) => readChange(file, { before, after, formerly, now })))));
  }
  return changes;
}

function toEntries(list: readonly { path: string; mode: string; sizeBytes: number }[]): Entries {
  return new Map(list.map((entry) => [entry.path, entry]));
}

async function readChange(
  file: ChangedFile,
  sides: { before: CommitReader; after: CommitReader; formerly: Entries; now: Entries },
): Promise<FileChange> {
  const formerPath = file.from ?? (sides.formerly.has(file.path) ? file.path : null);
  const [old, current] = await Promise.all([
    formerPath === null ? null : readRegular(sides.before, sides.formerly, formerPath),
    file.status === "deleted" ? null : readRegular(sides.after, sides.now, file.path),
  ]);
  const before = textOf(old);
  const after = textOf(current);
  const entry = sides.now.get(file.path);
  return {
    path: file.path,
    formerPath,
    deleted: file.status === "deleted",
    before,
    after,
    added: after === null ? [] : addedLines(before, after),
    binary: file.binary || (current !== null && after === null),
    executable: entry?.mode === "100755",
    isLink: linkModes.includes(entry?.mode ?? ""),
    sizeBytes: file.status === "deleted" || linkModes.includes(entry?.mode ?? "") ? 0 : (entry?.sizeBytes ?? 0),
    formerSizeBytes: formerPath === null ? 0 : (sides.formerly.get(formerPath)?.sizeBytes ?? 0),
    head: current?.subarray(0, 300) ?? Buffer.alloc(0),
  };
}

async function readRegular(reader: CommitReader, entries: Entries, path: string): Promise<Buffer | null> {
  if (linkModes.includes(entries.get(path)?.mode ?? "")) return null;
  return await reader.read(path);
}

/** Returns a file's text; null if it is binary, as in git: a NUL in the first 8,000 bytes. */
function textOf(bytes: Buffer | null): string | null {
  if (bytes === null || bytes.subarray(0, 8_000).includes(0)) return null;
  return bytes.toString("utf8").replace(/^\uFEFF/, "");
}

/**
 * Returns the lines that occur more often after than before, at their last positions. Moving a line
 * within its file adds nothing.
 */
export function addedLines(before: string | null, after: string): AddedLine[] {
  const countsByLine = new Map<string, number>();
  for (const text of before?.split(/\r?\n/) ?? []) countsByLine.set(text, (countsByLine.get(text) ?? 0) + 1);
  const added: AddedLine[] = [];
  after.split(/\r?\n/).forEach((text, index) => {
    const remaining = countsByLine.get(text) ?? 0;
    if (remaining > 0) countsByLine.set(text, remaining - 1);
    else added.push({ line: index + 1, text });
  });
  return added;
}

/** Makes a finding of a static check, certain by default. */
export function staticFinding(
  rule: string,
  severity: Severity,
  message: string,
  place: { file: string; line?: number | null },
): Finding {
  return { rule, severity, message, file: place.file, line: place.line ?? null, confidence: null };
}
