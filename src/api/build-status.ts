import type { StatusView, TaskView } from "../coordinator/build/build-view.ts";
import { itemAt } from "../domain/known.ts";
import { roomRemedy } from "../domain/sandbox/sandbox.ts";
import { waveResults } from "./build-result.ts";
import { commentsJson } from "./comments.ts";
import { messagesJson } from "./messages.ts";
import { pullRequestsField } from "./pull-requests.ts";
import { openQuestionsJson } from "./questions.ts";
import { spentBy, spentByBuild, spentByTask, spentJson } from "./spending.ts";
import { attemptsAt } from "./view-index.ts";
import { phaseOf, waitText } from "./waiting.ts";

export interface StatusFacts {
  /** The build is not over, and no live process drives it. */
  readonly interrupted: boolean;
  readonly repository: string;
  /** The file of the plan that waits for approval, if there is one. */
  readonly planFile?: string | null;
  /** A `serve` on this data directory shows previews. */
  readonly isServed?: boolean;
  readonly now: Date;
}

const attemptsJson = (view: StatusView, { key }: TaskView) =>
  attemptsAt(view, key).map(({ wave, attempt }) => ({
    number: attempt.number,
    wave: wave.number,
    status: attempt.status,
    outcome: attempt.outcome,
    spent: spentJson(spentBy(view, [attempt])),
  }));

/** The current state of a build, as `status --json` and the API show it. */
export function statusJson(
  view: StatusView,
  { interrupted, isServed = false, repository, planFile, now }: StatusFacts,
): Record<string, unknown> {
  const { id, status, reason, createdAt, startedAt, endedAt, sandboxDriver, network, headSha, plan } = view.build;
  return {
    buildId: id,
    project: view.project,
    ...(view.build.brief === null ? {} : { brief: view.build.brief.text }),
    ...(planFile == null ? {} : { planFile }),
    status,
    reason,
    interrupted,
    phase: phaseOf(view),
    questions: openQuestionsJson(view, now),
    waitsForSandbox: view.waitsForSandbox === null ? null : { reason: view.waitsForSandbox, remedy: roomRemedy },
    sandboxTrouble: view.sandboxTrouble,
    createdAt,
    startedAt,
    endedAt,
    sandbox: sandboxDriver,
    sandboxWall: view.sandboxWall,
    network,
    spent: spentJson(spentByBuild(view)),
    budget: { tokens: plan.limits.budget.tokens, usd: plan.limits.budget.usd },
    waves: waveResults(view).map((result, index) => ({
      ...result,
      findings: itemAt(view.waves, index)
        .gates.flatMap((gate) => (gate.verdict === "passed" ? [] : gate.findings))
        .map(({ rule, severity, message, file, line }) => ({ rule, severity, message, file, line })),
    })),
    tasks: view.tasks.map((task) => ({
      id: task.key,
      agent: task.agent,
      status: task.status,
      wave: task.waveNumber,
      attempts: task.attempts,
      eachAttempt: attemptsJson(view, task),
      spent: spentJson(spentByTask(view, task.key)),
      messages: messagesJson(view, task.key),
      reason: task.reason,
      waitsFor: endedAt === null ? (waitText(view, task)?.replace(/^waiting for /, "") ?? null) : null,
    })),
    comments: commentsJson(view),
    preview: previewJson(view, isServed),
    ...pullRequestsField(view),
    repository,
    head: headSha,
  };
}

function previewJson({ preview }: StatusView, isServed: boolean) {
  if (preview === null) return null;
  return { wave: preview.waveNumber, status: preview.status, url: isServed ? preview.url : null };
}
