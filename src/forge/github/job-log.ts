import type { ForgePlace } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { placeOf, unlessMissing } from "./repositories.ts";

/** Reads the log of a job of GitHub Actions as it arrives, however long it is. */
export async function readJobLog(
  { request }: GitHubClient,
  { name }: ForgePlace,
  jobId: number,
): Promise<AsyncIterable<Uint8Array> | null> {
  const found = await unlessMissing(
    request("GET /repos/{owner}/{repo}/actions/jobs/{job_id}/logs", {
      ...{ ...placeOf(name), job_id: jobId },
      request: { parseSuccessResponseBody: false },
    }),
  );
  return found === null ? null : (found.data as unknown as AsyncIterable<Uint8Array>);
}
