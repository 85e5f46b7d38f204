import { stripVTControlCharacters } from "node:util";
import { itemAt } from "../../domain/known.ts";
import { resultBranch } from "../../domain/refs/result-branch.ts";
import { shellWord } from "../../domain/shell-word.ts";

// Formats durations, sizes, counts and foreign text for people.

/** `0.4s`, `12s`, `2m 05s`, `1h 02m`. */
export function duration(ms: number): string {
  const safe = Math.max(0, ms);
  if (safe < 9_950) return `${(safe / 1000).toFixed(1)}s`;
  const seconds = Math.round(safe / 1000);
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${pad(seconds % 60)}s`;
  return `${Math.floor(minutes / 60)}h ${pad(minutes % 60)}m`;
}

const pad = (value: number): string => String(value).padStart(2, "0");

/** Formats a running clock: `0:07`, `12:30`, `1:02:03`. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${pad(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${pad(seconds % 60)}`;
}

export function bytesText(size: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = size;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** Formats a number with its noun: `1 task`, `3 tasks`. */
export const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`;

export const shortSha = (sha: string): string => sha.slice(0, 12);

/** Formats how long ago, in one unit: `3 minutes ago`. */
export function ago(from: Date, now: Date): string {
  const seconds = Math.max(0, Math.round((now.getTime() - from.getTime()) / 1000));
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${count(Math.floor(seconds / 60), "minute")} ago`;
  if (seconds < 86_400) return `${count(Math.floor(seconds / 3600), "hour")} ago`;
  return `${count(Math.floor(seconds / 86_400), "day")} ago`;
}

/**
 * Makes text from agents, tools and repositories safe to print: it cannot move the cursor, change
 * colours or send anything back (W12). Keeps line ends and tabs.
 */
export function harmless(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\r\n?/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "");
}

/** Like `harmless`, on one line. */
export const oneLine = (text: string): string =>
  harmless(text)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ");

/** Pads columns so that they line up; the last one stays unpadded. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    });
  }
  return rows.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(itemAt(widths, column))))
      .join("  ")
      .trimEnd(),
  );
}

/** Returns the command that fetches a build's result into the user's repository. */
export const fetchText = (repository: string, planName: string): string =>
  `fetch it: git fetch ${shellWord(repository)} main:${resultBranch(planName)}`;
