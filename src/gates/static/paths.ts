import type { Finding } from "../../domain/gate/finding.ts";
import { itemAt } from "../../domain/known.ts";
import { createPathMatcher } from "../../domain/paths/write-globs.ts";
import type { StaticCheckRequest } from "../port.ts";
import { type FileChange, staticFinding } from "./changes.ts";

const installed = /^(.*?(?:^|\/)(?:node_modules|bower_components|\.venv|site-packages|\.pnpm-store|\.yarn\/cache))\//;
const cache = /^(.*?(?:^|\/)(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.gradle|\.nyc_output))\//;

/** Returns the dependency or cache folder that contains a path, or null. */
export function generatedFolder(path: string): string | null {
  return installed.exec(path)?.[1] ?? cache.exec(path)?.[1] ?? null;
}

/**
 * Finds dependency folders that this change put under version control, one finding each; caches,
 * which are harmless, share one.
 */
export function findGeneratedFolders(
  changes: readonly Pick<FileChange, "path" | "deleted">[],
  before: readonly string[],
): Finding[] {
  const known = new Set(before.map(generatedFolder));
  const folders = changes.filter((change) => !change.deleted).map((change) => generatedFolder(change.path));
  const added = [...new Set(folders)].filter((folder) => folder !== null && !known.has(folder)) as string[];
  const caches = added.filter((folder) => cache.test(`${folder}/`));
  const findings = added
    .filter((folder) => !caches.includes(folder))
    .map((folder) => {
      const message = `${folder}/ contains installed packages and was committed`;
      return staticFinding("dependency-folder", "high", message, { file: folder });
    });
  if (caches.length === 0) return findings;
  const message = `caches were committed, such as ${caches[0]}/ (${caches.length} folders)`;
  return [...findings, staticFinding("cache-folder", "medium", message, { file: itemAt(caches, 0) })];
}

/**
 * Finds added paths that differ from another only in case: macOS and Windows would lose one of the
 * two.
 */
export function findCaseCollisions(changes: readonly FileChange[], after: readonly string[]): Finding[] {
  const paths = new Map<string, string[]>();
  for (const path of after) {
    const same = paths.get(path.toLowerCase()) ?? [];
    // Two are enough, because one of them always differs from the path we compare.
    if (same.length < 2) paths.set(path.toLowerCase(), [...same, path]);
  }
  return changes.flatMap((change) => {
    if (change.deleted || change.formerPath === change.path) return [];
    const other = paths.get(change.path.toLowerCase())?.find((path) => path !== change.path);
    if (other === undefined) return [];
    const message = `${change.path} and ${other} differ only in case, which many file systems cannot hold`;
    return [staticFinding("case-collision", "medium", message, { file: change.path })];
  });
}

const maxPerTask = 20;

/** Reports changes outside a task's declared `writes`; they never block. */
export function reportUndeclaredWrites(changes: StaticCheckRequest["changes"]): Finding[] {
  return changes.flatMap(({ taskKey, writes, files }) => {
    if (writes === null) return [];
    const declared = createPathMatcher(writes);
    const outside = files.filter((file) => !declared(file));
    const findings = outside.slice(0, maxPerTask).map((file) => {
      const message = `task ${taskKey} changed ${file}, which is not among its declared writes`;
      return staticFinding("undeclared-write", "low", message, { file });
    });
    const more = outside.length - findings.length;
    if (more > 0) itemAt(findings, -1).message += ` (and ${more} further files)`;
    return findings;
  });
}

/**
 * Reports changes to files that instruct agents. Undeclared changes are severe, because they could
 * steer the next agent.
 */
export function reportAgentFiles(changes: StaticCheckRequest["agentFiles"]): Finding[] {
  return changes.map(({ taskKey, file, declared }) => {
    const message = `task ${taskKey} changed ${file}, which agents read as instructions or settings`;
    if (declared) return staticFinding("agent-file", "low", `${message}; its writes name it`, { file });
    return staticFinding("agent-file", "high", `${message}, and no task names it in its writes`, { file });
  });
}

const whyAllowed = {
  declared: "its writes name it",
  "may-change-tests": "it may change tests",
  first: "there was no such file and no gate in force before",
};

/** Reports changes to gate files. Only changes that were not permitted block the wave. */
export function reportGateFiles(changes: NonNullable<StaticCheckRequest["gateFiles"]>): Finding[] {
  return changes.map(({ taskKey, file, what, allowed }) => {
    const message = `task ${taskKey} changed ${file}, which decides what a gate runs (${what})`;
    if (allowed !== null) return staticFinding("gate-file", "low", `${message}; ${whyAllowed[allowed]}`, { file });
    return staticFinding("gate-file", "high", `${message}, and no task names it in its writes`, { file });
  });
}
