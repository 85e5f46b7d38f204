import { WavesmithError } from "../../domain/errors.ts";
import type { Finding } from "../../domain/finding.ts";
import { type AgentSpec, agentSpecFor } from "../../domain/plan.ts";
import { atLeast } from "../../domain/status.ts";
import type { SortedReview } from "../../gates/port.ts";
import type { JobState, SandboxEndpoint, StageSpec } from "../../sandbox/port.ts";
import type { BuildRow } from "../../store/port.ts";
import { describeFailure, endText, gateMask, stageOutput } from "../job/job-results.ts";
import { handoverPath, homePath } from "../names.ts";
import type { Ports } from "../port.ts";
import { askStage, type RunInWave, waveContext } from "./ask-gate.ts";

// The critic's agent looks at most twice, each time in a job, a tree and a session of its own:
// first for findings, then, if some of them would block, at those alone. What the first look found
// is kept with the run between the two, so that it is looked at again after whatever was lost
// meanwhile.

const fileDiffBytes = 16 * 1024 * 1024;
/** Nobody reads more, and each costs a look. */
const mostCandidates = 100;

/** The rule of the finding that the agent did not do its part: nothing a fixer could mend. */
export const reviewMissing = "review-missing";

/** The critic role's runtime, when the plan declares one for it by name. */
export const criticAgent = (build: BuildRow): AgentSpec | null =>
  Object.hasOwn(build.plan.agents, "critic") ? agentSpecFor(build.plan, "critic") : null;

const counted = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`;

const firstLookOf = ({ run }: RunInWave): SortedReview | null => run.evidence?.firstLook ?? null;

/**
 * For its first look the critic of a wave has in mind what it said of the head before; a second one
 * knows nothing of it.
 */
export const criticHome = (loaded: RunInWave): string =>
  firstLookOf(loaded) === null
    ? homePath(loaded.build.id, `critic-${loaded.wave.number}`)
    : secondLookHome(loaded, loaded.run.fence);

/** Nobody goes on with the session of a second look. */
export const secondLookHome = ({ run, build, wave }: RunInWave, fence: number): string =>
  homePath(build.id, `critic-${wave.number}-again-${run.round}.${fence}`);

/**
 * The stage in which the critic's agent looks at the wave's change, or again at what would block.
 */
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
  /** They count against the wave. */
  readonly blocking: Finding[];
  /** They are kept and cannot block. */
  readonly aside: Finding[];
  /** What a second look is to be asked about; null when nothing is left to be asked. */
  readonly askAgain: SortedReview | null;
  readonly notes: string[];
}

/**
 * What the critic's agent found, once its job has ended. An agent that handed in nothing readable
 * is itself a finding.
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
  const jobKey = run.jobKey!;
  const mask = await gateMask(ports, build, run);
  const stage = state.stages.find((candidate) => candidate.name === "agent");
  if (stage === undefined) return { lack: "the critic agent did not finish: never started" };
  if (stage.status !== "passed") {
    const said = stage.timedOut ? null : ports.agents.endOf(await stageOutput(endpoint, jobKey, stage, mask));
    return { lack: `the critic agent did not finish: ${said === null ? describeFailure(stage) : endText(said)}` };
  }
  const file = await endpoint.guest.readFile(`${handoverPath(jobKey)}/result.json`, { maxBytes: 1024 * 1024 });
  if (file === null) return { lack: "the critic agent handed in no findings file (WAVESMITH_RESULT_FILE)" };
  return { text: mask(file.toString("utf8")) };
}

/** A look that failed is not one that found nothing: the gate does not pass by it. */
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
  const candidates = sorted.candidates.slice(0, mostCandidates);
  const tooMany = sorted.candidates.slice(mostCandidates);
  const aside = [
    ...sorted.aside,
    ...tooMany.map((finding) => ports.gates.setAside(finding, `beyond the first ${mostCandidates}`)),
  ];
  const askAgain = candidates.length === 0 ? null : { candidates, aside };
  return { blocking: [], aside, askAgain, notes: [`${counted(found.length, "finding")} by the critic agent`] };
}

function secondReview({ gates }: Ports, { candidates, aside }: SortedReview, text: string): Reviewed {
  const verdicts = gates.parseSecondLook(text, candidates);
  const confirmed = candidates.filter((_, index) => verdicts[index]!.confirmed);
  const others = candidates.flatMap((finding, index) => {
    const { confirmed: holds, reason } = verdicts[index]!;
    if (holds) return [];
    return [gates.setAside(finding, `not confirmed by a second look${reason === null ? "" : ` (${reason})`}`)];
  });
  const all = candidates.length + aside.length;
  const notes = [
    `${counted(all, "finding")} by the critic agent, ${confirmed.length} of ${candidates.length} confirmed by a second look`,
  ];
  return { blocking: confirmed, aside: [...others, ...aside], askAgain: null, notes };
}
