import type { Finding } from "../../../domain/gate/finding.ts";
import { agentFilesAmong } from "../../../domain/paths/agent-files.ts";
import { quantity } from "../../../domain/quantity.ts";
import type { SortedReview } from "../../../gates/port.ts";
import type { JobState } from "../../../sandbox/port.ts";
import { ensureSandbox } from "../../../sandbox-lifecycle/ensure-sandbox.ts";
import type { ChangedFile } from "../../../workspace/port.ts";
import { commitReader } from "../../commit-reader.ts";
import { declaredByTasks } from "../../guarded-files/agent-files.ts";
import { judgeGateFiles } from "../../guarded-files/gate-files.ts";
import type { Ports } from "../../port.ts";
import { criticAgent, judgeReview, type Reviewed, reviewMissing } from "../agent/critic-review.ts";
import { type Judged, noEvidence } from "../gate-outcome.ts";
import type { LoadedGate } from "../gate-run.ts";
import { syntaxFindings } from "./syntax-checks.ts";

export async function judgeCritic(
  ports: Ports,
  loaded: LoadedGate,
  state: JobState | null,
): Promise<Judged | { readonly askAgain: SortedReview }> {
  const { run, build, wave, tasks } = loaded;
  const settings = build.plan.gates.critic;
  if (settings === false) throw new Error("the critic is switched off");
  const changed = await ports.workspace.changedFiles(build.projectId, wave.baseSha, run.sha);
  const members = tasks.filter((task) => task.waveId === wave.id && task.status === "completed");
  const everyMay = members.length > 0 && members.every((task) => task.definition.mayChangeTests);
  // A fix declares no writes, so it may change the agent files that a task of its wave names.
  const named = declaredByTasks(members);
  const fixes = (await fixChanges(ports, loaded, everyMay)).map((fix) => ({ ...fix, names: named }));
  const attributed = [
    ...members.map((task) => ({
      taskKey: task.key,
      writes: task.definition.writes,
      names: task.definition.writes ?? [],
      mayChangeTests: task.definition.mayChangeTests,
      files: task.changedFiles,
    })),
    ...fixes,
  ];
  const known = new Set(attributed.flatMap((change) => change.files));
  // Files that no attempt changed came from a person on the wave's branch, who may change tests.
  const byPerson = changed.map((file) => file.path).filter((path) => !known.has(path));
  const gateFiles = await gateFilesOf(ports, loaded, changed, attributed);
  const findings = await ports.gates.staticChecks({
    changed,
    secrets: ports.secrets.values(build.plan.secrets),
    before: commitReader(ports, build.projectId, wave.baseSha),
    after: commitReader(ports, build.projectId, run.sha),
    changes: [...attributed, { taskKey: "person", writes: null, mayChangeTests: true, files: byPerson }],
    agentFiles: attributed.flatMap(({ taskKey, names, files }) =>
      agentFilesAmong(files, names).map((found) => ({ taskKey, ...found })),
    ),
    gateFiles,
  });
  const notes = [`${quantity(changed.length, "changed file")} checked`];
  if (state !== null) findings.push(...(await syntaxFindings(ports, loaded, state)));
  const review = state === null || criticAgent(build) === null ? null : await reviewed(ports, loaded, state);
  if (review?.askAgain != null) return { askAgain: review.askAgain };
  notes.push(...(review?.notes ?? []));
  const blocking = [...findings, ...(review?.blocking ?? [])];
  const verdict = ports.gates.judgeFindings(blocking, settings.block);
  const evidence = {
    ...noEvidence(run.sha, notes),
    command: "static checks",
    durationMs: elapsed(run.createdAt, ports.clock.now()),
  };
  return {
    verdict,
    reason: verdict === "failed" ? `findings at or above ${settings.block}` : null,
    fixable: ports.gates.judgeFindings(blocking.filter(isMendable), settings.block) === "failed",
    evidence,
    findings: [...blocking, ...(review?.aside ?? [])],
    blocking,
  };
}

/** Lists the gate files that the wave changed, each with the task or fix that changed it. */
async function gateFilesOf(
  ports: Ports,
  { run, build, wave, tasks }: LoadedGate,
  changed: readonly ChangedFile[],
  changes: readonly {
    readonly taskKey: string;
    readonly names: readonly string[];
    readonly mayChangeTests: boolean;
    readonly files: readonly string[];
  }[],
) {
  const judged = changes.map(async ({ taskKey, names, mayChangeTests, files }) => {
    const own = new Set(files);
    const found = await judgeGateFiles(ports, build, tasks, {
      before: wave.baseSha,
      after: run.sha,
      changed: changed.filter(({ path }) => own.has(path)),
      writes: names,
      mayChangeTests,
    });
    return found.map((file) => ({ taskKey, ...file }));
  });
  return (await Promise.all(judged)).flat();
}

const isMendable = ({ rule }: Finding): boolean => rule !== reviewMissing;

const elapsed = (from: Date, to: Date): number => to.getTime() - from.getTime();

async function fixChanges(ports: Ports, { build, wave }: LoadedGate, everyMay: boolean) {
  const fixes = await ports.store.attempts.list(
    { waveId: wave.id, kind: "fix", outcome: "succeeded" },
    { by: "number" },
  );
  const changes = [];
  for (const fix of fixes) {
    if (fix.commitSha === null) continue;
    const files = await ports.workspace.changedFiles(build.projectId, fix.baseSha, fix.commitSha);
    changes.push({ taskKey: "fix", writes: null, mayChangeTests: everyMay, files: files.map((file) => file.path) });
  }
  return changes;
}

const reviewed = async (ports: Ports, loaded: LoadedGate, state: JobState): Promise<Reviewed> =>
  judgeReview(ports, await ensureSandbox(ports, loaded.build), loaded, state);
