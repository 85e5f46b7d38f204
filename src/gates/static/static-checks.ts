import type { Finding } from "../../domain/gate/finding.ts";
import { severitySchema } from "../../domain/status.ts";
import type { StaticCheckRequest } from "../port.ts";
import { type FileChange, readChanges } from "./changes.ts";
import { findConflictMarkers } from "./conflict-markers.ts";
import { findOddFiles } from "./file-kinds.ts";
import {
  findCaseCollisions,
  findGeneratedFolders,
  generatedFolder,
  reportAgentFiles,
  reportGateFiles,
  reportUndeclaredWrites,
} from "./paths.ts";
import { findGivenSecrets, findSecrets } from "./secrets.ts";
import { checkSyntax } from "./syntax.ts";
import { findWeakenedTests } from "./weakened-tests.ts";

const maxPerRule = 50;

/**
 * Finds problems that a change introduced and that can be found without a model, the most severe
 * first. Never reports older problems.
 */
export async function staticChecks(request: StaticCheckRequest): Promise<Finding[]> {
  // Report installed packages once for their folder, not once for each of their problems.
  const isGenerated = (path: string) => generatedFolder(path) !== null;
  const own = request.changed.filter((file) => !isGenerated(file.path));
  const installed = request.changed.filter((file) => isGenerated(file.path));
  const changes = await readChanges(own, request.before, request.after);
  const [before, after] = await Promise.all([request.before.list(), request.after.list()]);
  const findings = [
    ...(await checkEachFile(changes, request.secrets)),
    ...findWeakenedTests(
      withoutFreeFiles(changes, request.changes),
      before.map((file) => file.path),
    ),
    ...findGeneratedFolders(
      installed.map((file) => ({ path: file.path, deleted: file.status === "deleted" })),
      before.map((file) => file.path),
    ),
    ...findCaseCollisions(
      changes,
      after.map((file) => file.path),
    ),
    ...reportUndeclaredWrites(request.changes),
    ...reportAgentFiles(request.agentFiles),
    ...reportGateFiles(request.gateFiles ?? []),
  ];
  return limitPerRule(findings.sort(byGravity));
}

async function checkEachFile(changes: readonly FileChange[], given: StaticCheckRequest["secrets"]): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const change of changes) {
    const conflicts = findConflictMarkers(change);
    // A file with conflict markers does not parse either: one cause, one finding.
    const syntaxFaults = conflicts.length > 0 ? [] : await checkSyntax(change);
    findings.push(
      ...conflicts,
      ...findSecrets(change),
      ...findGivenSecrets(change, given),
      ...syntaxFaults,
      ...findOddFiles(change),
    );
  }
  return findings;
}

/**
 * Leaves out the files of tasks that may change tests. A file that no task is known to have changed
 * stays in.
 */
function withoutFreeFiles(changes: readonly FileChange[], tasks: StaticCheckRequest["changes"]): FileChange[] {
  const free = new Set(tasks.flatMap(({ files, mayChangeTests }) => (mayChangeTests ? files : [])));
  return changes.filter(({ path, formerPath }) => !free.has(path) && (formerPath === null || !free.has(formerPath)));
}

function byGravity(one: Finding, other: Finding): number {
  return severitySchema.options.indexOf(other.severity) - severitySchema.options.indexOf(one.severity);
}

/** Keeps at most fifty findings of each rule. */
function limitPerRule(findings: readonly Finding[]): Finding[] {
  const seen = new Map<string, number>();
  return findings.filter((finding) => {
    const number = (seen.get(finding.rule) ?? 0) + 1;
    seen.set(finding.rule, number);
    return number <= maxPerRule;
  });
}
