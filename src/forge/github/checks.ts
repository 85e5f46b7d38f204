import type { ForgeCheck } from "../../domain/forge.ts";
import type { CheckReport } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { allPages } from "./pages.ts";
import { placeOf } from "./repositories.ts";

/** GitHub accepts no more in one call, and after a crash a second call would add them twice. */
const mostAnnotations = 50;
const longestSummary = 60_000;

/** Reports with a check run, which only an App may create. The key is its `external_id`. */
export async function ensureCheckRun({ request }: GitHubClient, report: CheckReport): Promise<void> {
  const { repository, sha, key, name, conclusion, title, summary } = report;
  const { data } = await request("GET /repos/{owner}/{repo}/commits/{ref}/check-runs", {
    ...placeOf(repository.name),
    ...{ ref: sha, check_name: name, per_page: 100 },
  });
  if (data.check_runs.some((run) => run.external_id === key && run.conclusion === conclusion)) return;
  const annotations = report.annotations.slice(0, mostAnnotations).map(({ path, line, level, message }) => ({
    ...{ path, start_line: line, end_line: line, annotation_level: level, message: message.slice(0, 2_000) },
  }));
  await request("POST /repos/{owner}/{repo}/check-runs", {
    ...placeOf(repository.name),
    ...{ name, head_sha: sha, external_id: key, status: "completed" as const, conclusion },
    output: { title, summary: summary.slice(0, longestSummary), annotations },
  });
}

const statusOf = { success: "success", neutral: "success", failure: "failure" } as const;

/** Reports with a commit status, which a token may write; it cannot have annotations. */
export async function ensureStatus({ request }: GitHubClient, report: CheckReport): Promise<void> {
  const { repository, sha, name: context, conclusion } = report;
  const state = statusOf[conclusion];
  const description = report.title.slice(0, 140);
  const place = placeOf(repository.name);
  const { data } = await request("GET /repos/{owner}/{repo}/commits/{ref}/status", {
    ...place,
    ref: sha,
    per_page: 100,
  });
  const isThere = data.statuses.some(
    (status) => status.context === context && status.state === state && status.description === description,
  );
  if (isThere) return;
  await request("POST /repos/{owner}/{repo}/statuses/{sha}", { ...place, sha, state, description, context });
}

const failing = new Set(["failure", "timed_out", "cancelled", "action_required", "startup_failure", "stale"]);

/** Reads all checks of a commit, the newest run of each name. */
export async function readChecks({ request }: GitHubClient, name: string, sha: string): Promise<ForgeCheck[]> {
  const place = { ...placeOf(name), ref: sha, per_page: 100 };
  const runs = await allPages(async (page) => {
    const path = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs";
    return (await request(path, { ...place, page, filter: "latest" as const })).data.check_runs;
  });
  const statuses = await allPages(async (page) => {
    return (await request("GET /repos/{owner}/{repo}/commits/{ref}/status", { ...place, page })).data.statuses;
  });
  return [
    ...runs.map(({ name: check, status, conclusion, html_url: url }) => ({
      name: check,
      state: status !== "completed" ? "pending" : failing.has(conclusion ?? "") ? "failed" : "passed",
      url,
    })),
    ...statuses.map(({ context, state, target_url: url }) => ({
      name: context,
      state: state === "pending" ? "pending" : state === "success" ? "passed" : "failed",
      url,
    })),
  ] as ForgeCheck[];
}
