import type { Finding } from "../../domain/gate/finding.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { present } from "../../domain/known.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptRow } from "../../store/port.ts";
import type { KeepResult } from "../../workspace/port.ts";
import { commitReader } from "../commit-reader.ts";
import { plantedReason } from "../guarded-files/agent-files.ts";
import { changedGatesReason } from "../guarded-files/gate-files.ts";
import type { Mask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";
import { mayChangeTests, waveMembers } from "../wave/wave-members.ts";
import type { LoadedAttempt } from "./attempt.ts";
import type { Judgement } from "./judgement.ts";

/** Refuses a fix that weakens tests, unless every task of the wave may change tests (W7). */
export async function guardFix(
  ports: Ports,
  { attempt, build, wave }: LoadedAttempt,
  kept: KeepResult | null,
  judged: Judgement,
): Promise<Judgement> {
  if (attempt.kind !== "fix" || judged.outcome !== "succeeded" || kept?.commit == null) return judged;
  if (mayChangeTests(await waveMembers(ports, wave.id))) return judged;
  const weakened = (await checkFix(ports, build.projectId, attempt, kept)).filter((finding) =>
    ports.gates.isWeakenedTest(finding),
  );
  if (weakened.length === 0) return judged;
  return {
    outcome: "refused",
    reason: `the fix weakens tests: ${weakened.map((finding) => finding.message).join("; ")}`,
  };
}

async function checkFix(ports: Ports, projectId: ProjectId, attempt: AttemptRow, kept: KeepResult): Promise<Finding[]> {
  return ports.gates.staticChecks({
    changed: kept.changed,
    secrets: {},
    before: commitReader(ports, projectId, attempt.baseSha),
    after: commitReader(ports, projectId, present(kept.commit, "kept.commit")),
    changes: [{ taskKey: "fix", writes: null, mayChangeTests: false, files: kept.changed.map((file) => file.path) }],
    agentFiles: [],
  });
}

/** Refuses file names that contain a secret, because names appear in findings and prompts (W12). */
export function guardNames(kept: KeepResult | null, mask: Mask, judged: Judgement): Judgement {
  const secretName = kept?.changed.find(({ path }) => mask(path) !== path);
  if (judged.outcome !== "succeeded" || secretName === undefined) return judged;
  return { outcome: "refused", reason: `the name of a file that it changed holds a secret: ${mask(secretName.path)}` };
}

/**
 * Refuses an attempt that could steer the next agent (AF1, AF2 in agent-files.ts) or change its own
 * gates (GF1, GF2 in gate-files.ts).
 */
export async function guardDecidingFiles(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: LoadedAttempt,
  { kept, judged }: { kept: KeepResult | null; judged: Judgement },
): Promise<Judgement> {
  if (judged.outcome !== "succeeded" || kept === null) return judged;
  const reason =
    (await plantedReason(ports, endpoint, loaded, kept.changed)) ?? (await changedGatesReason(ports, loaded, kept));
  return reason === null ? judged : { outcome: "refused", reason };
}
