import type { ContextPack, FixContext, TaskContext } from "../../agents/port.ts";
import { failedOutput } from "../../domain/gate/added-checks.ts";
import type { Finding } from "../../domain/gate/finding.ts";
import { lockFileGlobs } from "../../domain/paths/lock-files.ts";
import { makesPlan } from "../../domain/plan/brief.ts";
import type { AttemptRow, CommentRow, FindingRow, TaskRow } from "../../store/port.ts";
import { findEarlierPlan, isPlanner } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { commentsOf } from "../wave/comments.ts";
import { failureOfWave } from "../wave/shared-tree.ts";
import { mayChangeTests, waveMembers } from "../wave/wave-members.ts";
import type { LoadedAttempt } from "./attempt.ts";
import { messagesBefore } from "./messages.ts";

/** Returns the context of an attempt. It comes from rows alone, so it can be made again. */
export function packForAttempt(ports: Ports, loaded: LoadedAttempt): Promise<ContextPack> {
  const { task } = loaded;
  if (task === null) return packForFix(ports, loaded);
  return isPlanner(loaded) ? packForPlanner(ports, loaded, task) : packForTask(ports, loaded, task);
}

async function packForTask(ports: Ports, { attempt, build, wave }: LoadedAttempt, task: TaskRow): Promise<ContextPack> {
  const { store, agents } = ports;
  // Every prompt includes the plan's own description.
  const keys = task.definition.dependsOn.filter((key) => !makesPlan(build, key));
  const needed = keys.length === 0 ? [] : await store.tasks.list({ buildId: build.id, key: keys }, { by: "position" });
  const context: TaskContext = {
    plan: build.plan,
    task: task.definition,
    attempt: attempt.number,
    waveNumber: wave.number,
    dependencies: needed.map(({ key, definition, summary, changedFiles }) => ({
      key,
      title: definition.title,
      summary,
      changedFiles,
    })),
    previousFailure: await previousFailure(ports, build, { taskId: task.id, number: attempt.number }),
    conflicts: task.conflicts,
    messages: (await messagesBefore(ports, attempt)).map(({ by, text }) => ({ by, text })),
    findings: (await commentsOf(ports, attempt)).map(commentFinding),
    memory: await memoryOf(ports, build),
  };
  return agents.taskPack(context);
}

async function packForPlanner(ports: Ports, loaded: LoadedAttempt, task: TaskRow): Promise<ContextPack> {
  const { attempt, build, wave } = loaded;
  return ports.agents.planPack({
    plan: build.plan,
    task: task.definition,
    attempt: attempt.number,
    waveNumber: wave.number,
    earlier: await findEarlierPlan(ports, loaded),
    messages: (await messagesBefore(ports, attempt)).map(({ by, text }) => ({ by, text })),
    memory: await memoryOf(ports, build),
  });
}

async function previousFailure(
  ports: Ports,
  build: LoadedAttempt["build"],
  { taskId, number }: { readonly taskId: string; readonly number: number },
): Promise<TaskContext["previousFailure"]> {
  const ofWave = build.plan.isolation === "shared" ? await failureOfWave(ports, build, taskId) : null;
  if (ofWave !== null) return { reason: ofWave, outputTail: "" };
  if (number === 1) return null;
  const failed = await ports.store.attempts.list(
    { taskId, status: "settled", outcome: ["failed", "timed-out", "lost", "refused"] },
    { by: "number" },
  );
  const previous = failed.findLast((attempt) => attempt.number < number);
  return previous === undefined
    ? null
    : { reason: previous.reason ?? "unknown", outputTail: previous.outputTail ?? "" };
}

/** A fixer reads the files as well, so it needs less of the change than a critic. */
const fixDiffBytes = 96 * 1024;

async function packForFix(ports: Ports, { attempt, build, wave }: LoadedAttempt): Promise<ContextPack> {
  const { agents, workspace } = ports;
  const cause =
    attempt.gateRunId === null ? await rejectionOf(ports, attempt) : await gateCause(ports, attempt.gateRunId);
  const given = await commentsOf(ports, attempt);
  const comments = given.map(commentFinding);
  const members = await waveMembers(ports, wave.id);
  const changed = await workspace.changedFiles(build.projectId, wave.baseSha, attempt.baseSha);
  const diff = await workspace.diff(build.projectId, wave.baseSha, attempt.baseSha, {
    maxBytes: fixDiffBytes,
    except: lockFileGlobs,
  });
  const context: FixContext = {
    plan: build.plan,
    waveNumber: wave.number,
    round: wave.fixRounds,
    maxRounds: build.plan.gates.maxFixRounds,
    ...cause,
    findings: [...comments, ...cause.findings],
    outputTail: [cause.outputTail, ...given.map(({ log }) => log ?? "")].filter((text) => text !== "").join("\n\n"),
    memory: await memoryOf(ports, build),
    tasks: members.map((member) => member.definition),
    changedFiles: changed.map((file) => file.path),
    diff,
    mayChangeTests: mayChangeTests(members),
  };
  return agents.fixPack(context);
}

type FixFindings = Pick<FixContext, "gate" | "findings" | "command" | "outputTail">;

async function gateCause({ store }: Ports, gateRunId: string): Promise<FixFindings> {
  const run = await store.gateRuns.get({ id: gateRunId });
  const findings = await store.findings.list({ gateRunId }, { by: "id" });
  const { command = null, outputTail = "" } = run.evidence ?? {};
  // Do not pass on a command that an agent wrote, because it would look like our instruction.
  const added = failedOutput(run.evidence?.added);
  const how = added === null ? { command, outputTail } : { command: null, outputTail: added };
  return { gate: run.gate, findings: findings.map(findingOf), ...how };
}

/** Returns the reason of the person who rejected the wave. */
async function rejectionOf({ store }: Ports, { approvalId }: AttemptRow): Promise<FixFindings> {
  if (approvalId === null) return { gate: "approval", findings: [], command: null, outputTail: "" };
  const { reason } = await store.approvals.get({ id: approvalId });
  const finding = {
    rule: "rejected",
    severity: "high" as const,
    message: reason ?? "",
    file: null,
    line: null,
    confidence: null,
  };
  return { gate: "approval", findings: [finding], command: null, outputTail: "" };
}

/** Turns a comment into a finding like those of gates, and marks one from a forge or CI. */
const commentFinding = ({ file, line, text, by, origin }: CommentRow): Finding => ({
  rule: origin === null ? `comment by ${by}` : `from outside, by ${by}`,
  severity: "high",
  message: text,
  file,
  line,
  confidence: null,
});

const memoryOf = async ({ store }: Ports, { projectId }: LoadedAttempt["build"]): Promise<string> =>
  (await store.projects.get({ id: projectId })).memory;

const findingOf = (row: FindingRow) => ({
  rule: row.rule,
  severity: row.severity,
  message: row.message,
  file: row.file,
  line: row.line,
  confidence: row.confidence === null ? null : row.confidence / 100,
});
