import type { EventData } from "../../domain/events/events.ts";
import type { BuildRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { createMask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";
import { type Giving, giveToFixer, type OutsideFinding } from "./give-to-fixer.ts";
import { recheckPullRequests } from "./recheck-pull-requests.ts";

// CK1. Only the newest report on a check of a commit counts, in whatever order reports arrive, and
// only reports on the build's latest commits.
// CK2. When a check turns green again, its finding is dropped unless a fixer already has it.

export type ReportedCheck = EventData<"ci/check.completed">;

/**
 * Stores a report on a check and hands a failure to the fixer. Doing it twice changes nothing.
 * Returns what was done, in words.
 */
export async function settleCheck(ports: Ports, report: ReportedCheck): Promise<string> {
  const masked = maskedReport(ports, report);
  return ports.store.transaction("settle-check", async (transaction) => {
    const { projectId } = await transaction.builds.get({ id: report.buildId });
    await transaction.lockProject(projectId);
    const build = await transaction.lockBuild(report.buildId);
    const wave = await reportedWave(transaction, build, masked.sha);
    if (wave === null) return "it is not about the latest commit of the build";
    const check = { ...masked, sha: masked.sha ?? wave.headSha ?? "" };
    const key = { buildId: build.id, sha: check.sha, name: check.name };
    const before = await transaction.ciChecks.find(key);
    const completedAt = new Date(check.completedAt);
    if (before !== null && before.completedAt > completedAt) return "a newer report on this check arrived before";
    if (
      before !== null &&
      before.completedAt.getTime() === completedAt.getTime() &&
      before.conclusion === check.conclusion
    )
      return before.answer;
    const giving = { transaction, ports, build, finding: findingOf(check) };
    const answer = check.conclusion === "failed" ? await giveToFixer(giving) : await takeBack(giving, check);
    await recheckPullRequests(transaction, ports, { buildId: build.id });
    const row = { conclusion: check.conclusion, url: check.url, completedAt, answer };
    if (before === null) await transaction.ciChecks.insert({ ...key, ...row });
    else await transaction.ciChecks.update(key, row);
    return answer;
  });
}

/** Removes our secrets from what a CI system wrote, because it is stored and shown. */
function maskedReport(ports: Ports, report: ReportedCheck): ReportedCheck {
  if (report.log === null) return report;
  return { ...report, log: createMask(ports.secrets.own())(report.log) };
}

/** Returns the wave that the report is about, if its commit is still the latest one (CK1). */
async function reportedWave(
  transaction: StoreTransaction,
  { id: buildId }: BuildRow,
  sha: string | null,
): Promise<WaveRow | null> {
  const latest = await latestWaveOf(transaction, buildId);
  if (sha === null || latest?.headSha === sha) return latest;
  const passed = await transaction.waves.find({ buildId, status: "passed" }, { by: "number", descending: true });
  return passed?.headSha === sha ? passed : null;
}

/** Drops the finding of an earlier report on the check, unless a fixer already has it (CK2). */
async function takeBack(
  { transaction, ports, build }: Giving,
  check: { sha: string } & ReportedCheck,
): Promise<string> {
  const open = await transaction.comments.list({ buildId: build.id, state: "open", by: "CI", sha: check.sha });
  const about = open.filter(({ text }) => text.startsWith(failureOf(check))).map(({ id }) => id);
  await transaction.comments.update({ id: about }, { state: "superseded", settledAt: ports.clock.now() });
  return check.conclusion === "passed" ? "it is green" : "it was cancelled";
}

const failureOf = ({ name }: ReportedCheck): string => `The check ${name} failed.`;

const findingOf = (check: ReportedCheck & { readonly sha: string }): OutsideFinding => ({
  ...{ origin: check.origin, by: "CI", sha: check.sha, file: null, line: null, log: check.log },
  text: [failureOf(check), ...(check.url === null ? [] : [check.url])].join(" "),
});
