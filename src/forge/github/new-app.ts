import { randomBytes } from "node:crypto";
import { z } from "zod";
import { ForgeError } from "../port.ts";
import type { GitHubClients } from "./client.ts";

// A GitHub App is made from a manifest: a person's browser posts it to GitHub, and GitHub sends the
// browser back with a code, for which it gives the App's key once, within an hour.

const permissions = {
  contents: "write",
  pull_requests: "write",
  checks: "write",
  statuses: "read",
  issues: "write",
  actions: "read",
  metadata: "read",
} as const;

const events = [
  ...["check_run", "issue_comment", "issues", "pull_request", "pull_request_review"],
  ...["pull_request_review_comment", "pull_request_review_thread", "push", "status", "workflow_run"],
] as const;

/** GitHub wants an address even for a webhook that is switched off; nobody has this one. */
const nowhere = "https://example.com/webhooks/github";

/** Describes our App to GitHub. Without our address, GitHub sends nothing and we poll it. */
export function appManifest(from: {
  readonly redirectUrl: string;
  /** Where others reach this server; null: nowhere. */
  readonly publicUrl: string | null;
  readonly webUrl: string;
}): string {
  const { redirectUrl, publicUrl, webUrl } = from;
  const hook = publicUrl === null ? { url: nowhere, active: false } : { url: `${publicUrl}/webhooks/github` };
  return JSON.stringify({
    // Names are unique on all of GitHub. Its page lets people choose another one.
    name: `wavesmith-${randomBytes(3).toString("hex")}`,
    url: publicUrl ?? webUrl,
    description: "Builds software with many agents at once and delivers it as pull requests",
    public: false,
    redirect_url: redirectUrl,
    hook_attributes: hook,
    default_permissions: permissions,
    default_events: events,
  });
}

/** Returns GitHub's page that takes a manifest, for an organisation or the person's account. */
export function newAppPage(webUrl: string, organization: string | null, state: string): string {
  const owner = organization === null ? "" : `/organizations/${encodeURIComponent(organization)}`;
  return `${webUrl}${owner}/settings/apps/new?state=${encodeURIComponent(state)}`;
}

const newAppSchema = z.object({
  id: z.number().int(),
  name: z.string(),
  html_url: z.url(),
  pem: z.string().min(1),
  webhook_secret: z.string().nullable(),
});

export type NewApp = z.infer<typeof newAppSchema>;

/** Exchanges GitHub's code for the new App with its key. */
export async function exchangeCode(clients: GitHubClients, code: string): Promise<NewApp> {
  const { data } = await clients.anonymous().request("POST /app-manifests/{code}/conversions", { code });
  const parsed = newAppSchema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw new ForgeError("invalid", "GitHub's answer has no App", {
    remedy: "see whether WAVESMITH_GITHUB_API is the address of GitHub's API",
  });
}
