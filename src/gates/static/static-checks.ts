import type { Finding } from "../../domain/finding.ts";
import { severitySchema } from "../../domain/status.ts";
import type { StaticCheckRequest } from "../port.ts";
import { type FileChange, readChanges } from "./changes.ts";
import { conflictMarkers } from "./conflict-markers.ts";
import { fileKinds } from "./file-kinds.ts";
import {
  agentFiles,
  caseCollisions,
  changedGateFiles,
  generatedFolder,
  generatedFolders,
  undeclaredWrites,
} from "./paths.ts";
import { givenSecrets, secrets } from "./secrets.ts";
import { syntax } from "./syntax.ts";
import { weakenedTests } from "./weakened-tests.ts";

const mostPerRule = 50;

/**
 * Finds problems that a change introduced and that need no model to see, the most severe first.
 * Never reports what was there before.
 */
export async function staticChecks(request: StaticCheckRequest): Promise<Finding[]> {
  // Report installed packages once for their folder, not once for each of their problems.
  const isGenerated = (path: string) => generatedFolder(path) !== null;
  const own = request.changed.filter((file) => !isGenerated(file.path));
  const installed = request.changed.filter((file) => isGenerated(file.path));
  const changes = await readChanges(own, request.before, request.after);
  const [before, after] = await Promise.all([request.before.list(), request.after.list()]);
  const findings = [
    ...(await inEachFile(changes, request.secrets)),
    ...weakenedTests(
      withoutThoseOf(changes, request.changes),
      before.map((file) => file.path),
    ),
    ...generatedFolders(
      installed.map((file) => ({ path: file.path, deleted: file.status === "deleted" })),
      before.map((file) => file.path),
    ),
    ...caseCollisions(
      changes,
      after.map((file) => file.path),
    ),
    ...undeclaredWrites(request.changes),
    ...agentFiles(request.agentFiles),
    ...changedGateFiles(request.gateFiles ?? []),
  ];
  return limited(findings.sort(byGravity));
}

async function inEachFile(changes: readonly FileChange[], given: StaticCheckRequest["secrets"]): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const change of changes) {
    const conflicts = conflictMarkers(change);
    // A file with conflict markers does not parse either: one cause, one finding.
    const broken = conflicts.length > 0 ? [] : await syntax(change);
    findings.push(...conflicts, ...secrets(change), ...givenSecrets(change, given), ...broken, ...fileKinds(change));
  }
  return findings;
}

/**
 * The task that changed the file decides; a file that no task of the wave is known to have changed
 * may not be weakened.
 */
function withoutThoseOf(changes: readonly FileChange[], tasks: StaticCheckRequest["changes"]): FileChange[] {
  const free = new Set(tasks.flatMap(({ files, mayChangeTests }) => (mayChangeTests ? files : [])));
  return changes.filter(({ path, formerPath }) => !free.has(path) && (formerPath === null || !free.has(formerPath)));
}

function byGravity(one: Finding, other: Finding): number {
  return severitySchema.options.indexOf(other.severity) - severitySchema.options.indexOf(one.severity);
}

/** Fifty findings of one rule are enough to read. */
function limited(findings: readonly Finding[]): Finding[] {
  const seen = new Map<string, number>();
  return findings.filter((finding) => {
    const number = (seen.get(finding.rule) ?? 0) + 1;
    seen.set(finding.rule, number);
    return number <= mostPerRule;
  });
}
