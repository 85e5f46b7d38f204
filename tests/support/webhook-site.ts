import { createHmac, randomUUID } from "node:crypto";
import { Pool } from "pg";
import { expect } from "vitest";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "./build-fixture.ts";
import { createGitHubServer, type GitHubServer } from "./github-server.ts";
import { usualToken } from "./github-state.ts";

export const webhookSecret = "s3cret-of-github";

/** A server that builds for every project, with a GitHub on loopback that sends it webhooks. */
export interface WebhookSite {
  readonly github: GitHubServer;
  readonly fixture: BuildFixture;
  readonly server: RunningServer;
  /** Sends a webhook as GitHub does, for `octo/app` unless the payload names a repository. */
  send(
    event: string,
    payload: object,
    options?: { id?: string; by?: string },
  ): Promise<{ status: number; body: Record<string, unknown> }>;
  /** The answers of a function's runs so far, such as `forge-push`, once none is running. */
  answers(functionId: string): Promise<string[]>;
  /** When the waiting runs of a function go on. */
  waits(functionId: string): Promise<Date[]>;
  /** Makes their waiting times end now. */
  passWaits(): Promise<void>;
  /** Waits until a build is stored and has ended. */
  ended(buildId: string): Promise<BuildRow>;
  close(): Promise<void>;
}

export async function createWebhookSite(env: Record<string, string> = {}): Promise<WebhookSite> {
  const github = await createGitHubServer();
  const own = {
    WAVESMITH_GITHUB_TOKEN: usualToken,
    WAVESMITH_GITHUB_API: github.url,
    WAVESMITH_GITHUB_URL: github.url,
  };
  const fixture = await createBuildFixture({ env: { ...own, ...env }, drivesAll: true });
  const { app } = fixture;
  const pool = new Pool({ connectionString: app.config.databaseUrl!, max: 1 });
  const patient = { timeout: 40_000 };
  const server = await startServer({
    ...{ app, engine: { kind: "embedded", serveOrigin: null }, key: "s3cret-of-serve", host: "127.0.0.1", port: 0 },
    webhooks: { githubSecrets: [webhookSecret], ciSecrets: [], triggers: { label: "wavesmith", assignee: null } },
    ...{ inform: () => undefined, warn: () => undefined },
  });
  return {
    ...{ github, fixture, server },
    async send(event, payload, { id = randomUUID(), by = webhookSecret } = {}) {
      const body = JSON.stringify({ repository: { full_name: "octo/app" }, ...payload });
      const signature = `sha256=${createHmac("sha256", by).update(body).digest("hex")}`;
      const headers = { "content-type": "application/json", "x-github-event": event, "x-github-delivery": id };
      const signed = { ...headers, "x-hub-signature-256": signature };
      const response = await fetch(`${server.origin}/webhooks/github`, { method: "POST", body, headers: signed });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    },
    async answers(functionId) {
      const runs = async () => {
        await app.flush();
        const text = "select status, output from engine.runs where function_id like $1 order by started_at, id";
        return (await pool.query(text, [`%${functionId}`])).rows as { status: string; output: unknown }[];
      };
      await expect.poll(async () => (await runs()).every(({ status }) => status !== "running"), patient).toBe(true);
      return (await runs()).map(({ output }) => String((output as { answer?: string } | null)?.answer));
    },
    async waits(functionId) {
      const text = "select due_at from engine.jobs where kind = 'timer' and function_id like $1";
      const { rows } = await pool.query<{ due_at: Date }>(text, [`%${functionId}`]);
      return rows.map((row) => row.due_at);
    },
    async passWaits() {
      await pool.query("update engine.jobs set due_at = now() where kind = 'timer'");
    },
    async ended(id) {
      await expect.poll(() => app.store.builds.find({ id }), patient).not.toBeNull();
      return fixture.until(id);
    },
    async close() {
      await pool.end();
      const driver = app.ports.driver(app.config.sandboxDriver);
      const projects = await app.store.projects.list({});
      await server.stop(1_000);
      for (const { id } of projects) await driver.remove(id, { volume: true });
      await fixture.close();
      await github.close();
    },
  };
}
