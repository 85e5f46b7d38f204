import { createHash } from "node:crypto";
import type { Context } from "hono";
import { Hono } from "hono";
import { defaultTenant, tenantIdFor } from "../coordinator/build/request/project.ts";
import { takeDelivery } from "../coordinator/outside/take-delivery.ts";
import type { Caller } from "../domain/access.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { IssueTriggers, ReadDelivery } from "../webhooks/port.ts";
import { readGithub } from "../webhooks/read-github.ts";
import { readReport } from "../webhooks/read-report.ts";
import { isSignedBy, looksSigned } from "../webhooks/signature.ts";
import type { Callers } from "./access/keys-and-sessions.ts";
import { createRateLimit, type RateLimit, tooManyRequests } from "./access/rate-limit.ts";
import { recordRequest } from "./access/record-request.ts";
import { refuseScope } from "./access/scope.ts";
import type { ServedApp } from "./port.ts";
import { problem } from "./problem.ts";
import { type BodyPatience, bodyInTime, limitRequest } from "./slow-body.ts";

// WH1. The signature of the body's bytes is checked before they are parsed, and a body without one
// is not even read. A forged delivery leaves nothing but a line in the audit log, and at most 60 of
// those a minute.

/** Who may send webhooks, and what starts a build in them. */
export interface WebhookSettings {
  /** A signature by any of them is accepted; if there is none, every delivery is refused. */
  readonly githubSecrets: readonly string[];
  readonly ciSecrets: readonly string[];
  readonly triggers: IssueTriggers;
}

interface WebhookContext {
  readonly app: ServedApp;
  readonly callers: Callers;
  readonly settings: WebhookSettings;
  readonly warn: (message: string) => void;
  readonly patience: BodyPatience;
  readonly rateLimit: RateLimit;
  /** Strangers must not fill the database with lines about them. */
  readonly forgedLines: RateLimit;
}

/** Whoever signs reports without a key; all of them share one bucket (RL1). */
const ciSystem = { keyId: "webhook ci", name: "signed reports" };
/** GitHub sends at most 25 MB. */
const maxGithubBytes = 25 * 1024 * 1024;
const maxReportBytes = 4 * 1024 * 1024;
const forgedLinesPerMinute = 60;

/** The routes for what forges and CI systems send. They store it; functions act on it. */
export function createWebhookRoutes(given: Omit<WebhookContext, "forgedLines">): Hono {
  const context = { ...given, forgedLines: createRateLimit(forgedLinesPerMinute, () => performance.now()) };
  const routes = new Hono();
  const limit = (maxBytes: number) => limitRequest(maxBytes, given.patience, "send the end of the log only");
  routes.post("/webhooks/github", limit(maxGithubBytes), (request) => answerGithub(context, request));
  routes.post("/webhooks/ci", limit(maxReportBytes), (request) => answerReport(context, request));
  return routes;
}

async function answerGithub(context: WebhookContext, { req }: Context): Promise<Response> {
  const { triggers } = context.settings;
  const githubSecrets = [...context.settings.githubSecrets, ...context.app.ports.forges.github.webhookSecrets()];
  if (githubSecrets.length === 0)
    return problem(
      503,
      "environment",
      "no secret for GitHub's webhooks is set",
      "set WAVESMITH_GITHUB_WEBHOOK_SECRET, or connect a GitHub App",
    );
  const signature = req.header("x-hub-signature-256");
  if (!looksSigned(signature)) return refuseForged(context, "github", "X-Hub-Signature-256 is missing");
  const bytes = await bodyInTime(req.arrayBuffer(), context.patience);
  if (bytes instanceof Response) return bytes;
  const body = Buffer.from(bytes);
  if (!isSignedBy(githubSecrets, body, signature))
    return refuseForged(context, "github", "X-Hub-Signature-256 does not match the body");
  const event = req.header("x-github-event") ?? "";
  const id = req.header("x-github-delivery") ?? "";
  if (!/^[\w-]{1,100}$/.test(id) || !/^\w{1,100}$/.test(event))
    throw new WavesmithError("usage", "X-GitHub-Delivery or X-GitHub-Event is missing");
  const reading = readGithub(event, parseOutside(body, req.header("content-type")), triggers);
  return accept(context, context.app, { id: `github:${id}`, tenantId: tenantIdFor(defaultTenant), event, reading });
}

async function answerReport(context: WebhookContext, { req }: Context): Promise<Response> {
  const key = /^Bearer (\S+)$/i.exec(req.header("authorization") ?? "")?.[1];
  const caller = key === undefined ? null : await context.callers.withKey(key);
  const signature = req.header("x-hub-signature-256");
  const forged = "there is no valid key and no valid signature";
  if (caller === null && !looksSigned(signature)) return refuseForged(context, "ci", forged);
  const bytes = await bodyInTime(req.arrayBuffer(), context.patience);
  if (bytes instanceof Response) return bytes;
  const body = Buffer.from(bytes);
  if (caller === null && !isSignedBy(context.settings.ciSecrets, body, signature))
    return refuseForged(context, "ci", forged);
  const waitMs = context.rateLimit.waitMs(caller ?? ciSystem);
  if (waitMs > 0) return tooManyRequests(caller ?? ciSystem, waitMs);
  const refused = caller === null ? null : refuseScope(caller, "build");
  if (refused !== null) return refused;
  const app = caller === null ? context.app : await context.app.forTenant(caller);
  const report = readReport(parseOutside(body, "application/json"), app.ports.clock.now());
  const id = `ci:${digestOf([app.tenant.tenantId, report.origin])}`;
  return accept(context, app, {
    ...{ id, tenantId: app.tenant.tenantId, event: "ci/check.completed" },
    reading: { facts: [{ ...report, origin: id }], ignored: null },
  });
}

async function accept(
  { warn }: WebhookContext,
  app: ServedApp,
  delivery: { id: string; tenantId: string; event: string; reading: ReadDelivery },
): Promise<Response> {
  const taken = await takeDelivery(app.ports, delivery);
  app.flush().catch((error: unknown) => warn(`events wait in the outbox: ${messageOf(error)}`));
  return Response.json({ id: delivery.id, ...taken }, { status: 202 });
}

/** Answers 401 and leaves a line in the audit log. */
async function refuseForged(context: WebhookContext, source: string, why: string): Promise<Response> {
  const nobody: Caller = {
    ...{ tenantId: tenantIdFor(defaultTenant), tenant: defaultTenant },
    ...{ scope: "read", keyId: `webhook ${source}`, name: `unknown (${source})` },
  };
  if (context.forgedLines.waitMs(nobody) === 0)
    await recordRequest(context, nobody, { action: `POST /webhooks/${source}`, params: { why }, result: 401 });
  return problem(401, "unauthorized", why, "check that both sides use the same secret");
}

/** Parses untrusted JSON: drops `__proto__`, and characters that cannot be stored. */
function parseOutside(body: Buffer, contentType: string | undefined): unknown {
  if (!/^application\/json\b/.test(contentType ?? ""))
    throw new WavesmithError("usage", "the webhook does not send JSON", {
      remedy: "choose application/json in its settings",
    });
  try {
    return JSON.parse(body.toString("utf8"), (key, value: unknown) => {
      if (key === "__proto__" || key === "constructor") return undefined;
      return typeof value === "string" ? value.replaceAll("\0", "").replace(/\p{Cs}/gu, "\ufffd") : value;
    });
  } catch (error) {
    throw new WavesmithError("usage", `the body is not JSON: ${messageOf(error)}`);
  }
}

const digestOf = (parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 40);
