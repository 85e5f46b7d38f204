import { WavesmithError } from "../../../domain/errors.ts";
import type { Evidence, Finding } from "../../../domain/gate/finding.ts";
import { itemAt } from "../../../domain/known.ts";
import { type AgentSpec, agentSpecFor } from "../../../domain/plan/plan.ts";
import { quantity } from "../../../domain/quantity.ts";
import { handoverPath, homePath } from "../../../domain/sandbox/volume-paths.ts";
import { atLeast } from "../../../domain/status.ts";
import type { SortedReview } from "../../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageSpec } from "../../../sandbox/port.ts";
import type { BuildRow } from "../../../store/port.ts";
import { describeFailure, endText, gateMask, stageOutput } from "../../job/job-results.ts";
import type { Mask } from "../../masking/masking.ts";
import type { Ports } from "../../port.ts";
import { maskFinding, noEvidence } from "../gate-outcome.ts";
import { askStage, type RunInWave, waveContext } from "./agent-question.ts";

// The critic's agent reviews at most twice, each time in its own job, tree and session: first for
// findings, then, if some would block, to judge only those. The run stores the findings of the
// first look, so that a loss repeats only the second.

const fileDiffBytes = 16 * 1024 * 1024;
/** Nobody reads more, and judging each one costs time. */
const maxCandidates = 100;

/** The rule of the finding that the agent submitted no review, which a fixer cannot fix. */
export const reviewMissing = "review-missing";

/** Returns the critic's runtime if the plan declares the role; null otherwise. */
export const criticAgent = (build: BuildRow): AgentSpec | null =>
  Object.hasOwn(build.plan.agents, "critic") ? agentSpecFor(build.plan, "critic") : null;

/** Returns the evidence for the second look, which holds the findings of the first. */
export const firstLookEvidence = (mask: Mask, { sha }: { readonly sha: string }, found: SortedReview): Evidence => ({
  ...noEvidence(sha, []),
  firstLook: {
    candidates: found.candidates.map((finding) => maskFinding(mask, finding)),
    aside: found.aside.map((finding) => maskFinding(mask, finding)),
  },
});

const firstLookOf = ({ run }: RunInWave): SortedReview | null => run.evidence?.firstLook ?? null;

/**
 * Returns the critic's home. First looks share one, to remember earlier heads; second looks don't.
 */
export const criticHome = (loaded: RunInWave): string =>
  firstLookOf(loaded) === null
    ? homePath(loaded.build.id, `critic-${loaded.wave.number}`)
    : secondLookHome(loaded, loaded.run.fence);

/** Returns a home for one second look, whose session is never continued. */
export const secondLookHome = ({ run, build, wave }: RunInWave, fence: number): string =>
  homePath(build.id, `critic-${wave.number}-again-${run.round}.${fence}`);

/** Returns the stage in which the critic reviews the wave, or judges the blocking findings. */
export async function reviewStage(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  asked: { readonly spec: AgentSpec; readonly env: Readonly<Record<string, string>> },
): Promise<StageSpec> {
  const context = await waveContext(ports, loaded);
  const firstLook = firstLookOf(loaded);
  const look =
    firstLook === null
      ? { pack: ports.agents.reviewPack(context), resultSchema: ports.gates.reviewSchema }
      : {
          pack: ports.agents.secondLookPack({ ...context, findings: firstLook.candidates }),
          resultSchema: ports.gates.secondLookSchema,
        };
  return askStage(ports, endpoint, loaded, {
    ...asked,
    ...look,
    role: "critic",
    home: criticHome(loaded),
    isNewHome: false,
  });
}

export interface Reviewed {
  /** Findings that block the wave. */
  readonly blocking: Finding[];
  /** Findings that are kept but cannot block. */
  readonly aside: Finding[];
  /** The findings for a second look; null when it is not needed. */
  readonly askAgain: SortedReview | null;
  readonly notes: string[];
}

/**
 * Reads the critic's findings after its job. A missing or unreadable result is itself a finding.
 */
export async function judgeReview(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: RunInWave,
  state: JobState,
): Promise<Reviewed> {
  const handedIn = await resultFile(ports, endpoint, loaded, state);
  const firstLook = firstLookOf(loaded);
  try {
    if ("lack" in handedIn) return complain(ports, loaded, handedIn.lack);
    return firstLook === null
      ? await firstReview(ports, loaded, handedIn.text)
      : secondReview(ports, firstLook, handedIn.text);
  } catch (error) {
    if (!(error instanceof WavesmithError && error.code === "usage")) throw error;
    return complain(ports, loaded, error.message);
  }
}

async function resultFile(
  ports: Ports,
  endpoint: SandboxEndpoint,
  { run, build }: RunInWave,
  state: JobState,
): Promise<{ text: string } | { lack: string }> {
  const jobKey = run.jobKey;
  const mask = await gateMask(ports, build, run);
  const stage = state.stages.find((candidate) => candidate.name === "agent");
  if (stage === undefined) return { lack: "the critic agent did not finish: never started" };
  if (stage.status !== "passed") {
    const agentEnd = stage.timedOut ? null : ports.agents.endOf(await stageOutput(endpoint, jobKey, stage, mask));
    return {
      lack: `the critic agent did not finish: ${agentEnd === null ? describeFailure(stage) : endText(agentEnd)}`,
    };
  }
  const file = await endpoint.guest.readFile(`${handoverPath(jobKey)}/result.json`, { maxBytes: 1024 * 1024 });
  if (file === null) return { lack: "the critic agent submitted no findings file (WAVESMITH_RESULT_FILE)" };
  return { text: mask(file.toString("utf8")) };
}

/** Turns a failed review into a finding, because the gate must not pass without a review. */
function complain({ gates }: Ports, loaded: RunInWave, message: string): Reviewed {
  const firstLook = firstLookOf(loaded);
  const { critic } = loaded.build.plan.gates;
  const block = critic === false || firstLook === null || atLeast("high", critic.block) ? "high" : critic.block;
  const where = firstLook === null ? "" : "in its second look, ";
  const waiting = firstLook?.candidates.map((finding) => gates.setAside(finding, "not looked at again")) ?? [];
  const finding = { rule: reviewMissing, severity: block, file: null, line: null, confidence: null };
  return {
    blocking: [{ ...finding, message: `${where}${message}` }],
    aside: [...waiting, ...(firstLook?.aside ?? [])],
    askAgain: null,
    notes: [],
  };
}

async function firstReview(ports: Ports, { run, build, wave }: RunInWave, text: string): Promise<Reviewed> {
  const { critic } = build.plan.gates;
  if (critic === false) throw new Error("the critic is switched off");
  const projectId = build.projectId;
  const found = ports.gates.parseReview(text);
  const sorted = await ports.gates.sortReview(found, {
    block: critic.block,
    changed: await ports.workspace.changedFiles(projectId, wave.baseSha, run.sha),
    diffOf: ({ path, from }) =>
      ports.workspace.diff(projectId, wave.baseSha, run.sha, {
        maxBytes: fileDiffBytes,
        paths: from === null ? [path] : [from, path],
      }),
  });
  const candidates = sorted.candidates.slice(0, maxCandidates);
  const tooMany = sorted.candidates.slice(maxCandidates);
  const aside = [
    ...sorted.aside,
    ...tooMany.map((finding) => ports.gates.setAside(finding, `beyond the first ${maxCandidates}`)),
  ];
  const askAgain = candidates.length === 0 ? null : { candidates, aside };
  return { blocking: [], aside, askAgain, notes: [`${quantity(found.length, "finding")} by the critic agent`] };
}

function secondReview({ gates }: Ports, { candidates, aside }: SortedReview, text: string): Reviewed {
  const verdicts = gates.parseSecondLook(text, candidates);
  const confirmed = candidates.filter((_, index) => itemAt(verdicts, index).confirmed);
  const others = candidates.flatMap((finding, index) => {
    const { confirmed: holds, reason } = itemAt(verdicts, index);
    if (holds) return [];
    return [gates.setAside(finding, `not confirmed by a second look${reason === null ? "" : ` (${reason})`}`)];
  });
  const all = candidates.length + aside.length;
  const notes = [
    `${quantity(all, "finding")} by the critic agent, ${confirmed.length} of ${candidates.length} confirmed by a second look`,
  ];
  return { blocking: confirmed, aside: [...others, ...aside], askAgain: null, notes };
}
