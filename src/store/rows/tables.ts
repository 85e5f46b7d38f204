import type { StoreSession } from "../connection/session.ts";
import type { ApiKeyRow, BuildRow, ProjectRow, Tables } from "../port.ts";
import * as schema from "../schema.ts";
import { type KeptRows, rowsOf } from "./rows.ts";

export type OwnTables = ReturnType<typeof tablesOf>;

/** The rows of every table, through one session. */
export function tablesOf(session: StoreSession, plans: KeptRows | null) {
  return {
    tenants: rowsOf(session, schema.tenants),
    apiKeys: rowsOf<ApiKeyRow, typeof schema.apiKeys.$inferInsert>(session, schema.apiKeys),
    sessions: rowsOf(session, schema.sessions),
    auditEntries: rowsOf(session, schema.auditEntries),
    projects: rowsOf<ProjectRow, typeof schema.projects.$inferInsert>(session, schema.projects),
    sandboxes: rowsOf(session, schema.sandboxes),
    snapshots: rowsOf(session, schema.snapshots),
    builds: rowsOf<BuildRow, typeof schema.builds.$inferInsert>(session, schema.builds, plans),
    tasks: rowsOf(session, schema.tasks),
    dependencies: rowsOf(session, schema.dependencies),
    waves: rowsOf(session, schema.waves),
    waveTasks: rowsOf(session, schema.waveTasks),
    attempts: rowsOf(session, schema.attempts),
    gateRuns: rowsOf(session, schema.gateRuns),
    findings: rowsOf(session, schema.findings),
    messages: rowsOf(session, schema.messages),
    comments: rowsOf(session, schema.comments),
    approvals: rowsOf(session, schema.approvals),
    jobs: rowsOf(session, schema.jobs),
    questions: rowsOf(session, schema.questions),
    logChunks: rowsOf(session, schema.logChunks),
    previews: rowsOf(session, schema.previews),
    restorePoints: rowsOf(session, schema.restorePoints),
    rollbacks: rowsOf(session, schema.rollbacks),
    schedules: rowsOf(session, schema.schedules),
    notifications: rowsOf(session, schema.notifications),
    pullRequests: rowsOf(session, schema.pullRequests),
    forgeCalls: rowsOf(session, schema.forgeCalls),
    webhookDeliveries: rowsOf(session, schema.webhookDeliveries),
    ciChecks: rowsOf(session, schema.ciChecks),
    buildSpending: rowsOf(session, schema.buildSpending),
    modelCalls: rowsOf(session, schema.modelCalls),
    outbox: rowsOf(session, schema.outbox),
  } satisfies Tables;
}
