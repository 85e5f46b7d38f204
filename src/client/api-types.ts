// Generated from the OpenAPI document by `npm run client`. Do not edit.

export interface components {
  schemas: {
    AgentReport: { "name": string; "title": string; "runtime": string; "command": (string | null); "installed": (string | null); "greeting": ({ "answers": boolean; [key: string]: unknown; } | null); "signedInWith": string[]; "lacks": { "what": string; "remedy": string; [key: string]: unknown; }[]; [key: string]: unknown; };
    Agents: { "ok": boolean; "sandbox": string; "untried": ({ "what": string; "remedy": string; [key: string]: unknown; } | null); "agents": components["schemas"]["AgentReport"][]; [key: string]: unknown; };
    AuditEntry: { "id": number; "at": string; "actor": string; "via": string; "action": string; "target": (string | null); "result": number; "tenant": string; [key: string]: unknown; };
    Build: { "id": string; "buildId": string; "project": string; "projectId": string; "brief"?: string; "status": ("queued" | "running" | "waiting" | "cancelling" | "completed" | "failed" | "cancelled"); "phase": string; "reason": (string | null); "questions": components["schemas"]["OpenQuestion"][]; "waitsForSandbox": ({ "reason": string; "remedy": string; } | null); "sandboxTrouble": (string | null); "createdAt": string; "startedAt": (string | null); "endedAt": (string | null); "sandbox": string; "spent": components["schemas"]["Spent"]; "budget": { "tokens": (number | null); "usd": (number | null); }; "waves": components["schemas"]["Wave"][]; "tasks": components["schemas"]["TaskState"][]; "preview": ({ "wave": number; "status": string; "url": (string | null); } | null); "pullRequests"?: components["schemas"]["PullRequest"][]; "repository": string; "head": (string | null); [key: string]: unknown; };
    BuildGraph: { "waves": components["schemas"]["GraphWave"][]; "tasks": components["schemas"]["GraphTask"][]; "criticalPath": string[]; };
    BuildRow: { "id": string; "project": string; "projectId": string; "status": ("queued" | "running" | "waiting" | "cancelling" | "completed" | "failed" | "cancelled"); "reason": (string | null); "tasks": number; "head": (string | null); "requestedBy": (string | null); "createdAt": string; "startedAt": (string | null); "endedAt": (string | null); [key: string]: unknown; };
    Changes: { "projectId": string; "from": string; "to": string; "files": { "path": string; "from": (string | null); "addedLines": (number | null); "deletedLines": (number | null); "binary": boolean; [key: string]: unknown; }[]; [key: string]: unknown; };
    Doctor: { "ok": boolean; "checks": components["schemas"]["MachineCheck"][]; [key: string]: unknown; };
    File: { "path": string; "name": string; "kind": string; "sizeBytes": (number | null); [key: string]: unknown; };
    Folder: { "commit": string; "path": string; "items": components["schemas"]["File"][]; "nextCursor": (string | null); [key: string]: unknown; };
    Garbage: { "kind": ("build" | "output" | "branches" | "volume" | "snapshot" | "upload"); "project": string; "id": string; "bytes": (number | null); [key: string]: unknown; };
    GateEvidence: { "sha": string; "command": (string | null); "exitCode": (number | null); "signal": (string | null); "timedOut": boolean; "durationMs": number; "outputTail": string; "tests": ({ "total": number; "passed": number; "failed": number; "skipped": number; "assertions"?: number; "source": ("tap" | "junit" | "runner"); } | null); "notes": string[]; [key: string]: unknown; };
    GateFinding: { "rule": string; "severity": ("low" | "medium" | "high" | "critical"); "message": string; "file": (string | null); "line": (number | null); };
    GateRun: { "id": string; "wave": number; "gate": string; "round": number; "sha": string; "status": string; "verdict": (string | null); "reason": (string | null); "evidence": (components["schemas"]["GateEvidence"] | null); "findings": components["schemas"]["GateFinding"][]; "createdAt": string; "endedAt": (string | null); };
    GitHubSignIn: { "webUrl": string; "source": ("settings" | "stored" | null); "kind": ("token" | "app" | "none"); "login": string; "rights": string[]; "accounts": (string[] | null); "installUrl": (string | null); "problem": ({ "message": string; "remedy": (string | null); } | null); "unfinished": ({ "since": string; "remedy": string; } | null); [key: string]: unknown; };
    GraphTask: { "id": string; "title": string; "agent": string; "status": string; "dependsOn": string[]; "wave": number; "spent": components["schemas"]["Spent"]; };
    GraphWave: { "number": number; "status": string; "tasks": string[]; "reason": (string | null); "fixRounds": number; "base": (string | null); "head": (string | null); "createdAt": (string | null); "endedAt": (string | null); "spent": (components["schemas"]["Spent"] | null); "work": components["schemas"]["Work"][]; };
    InboxItem: { "kind": ("build" | "question" | "failed"); "buildId": string; "project": string; "phase": string; "wave": (number | null); "decision": ("wave" | "plan" | null); "failedGate": ({ "id": string; "gate": string; "finding": (string | null); } | null); "since": string; "reason"?: (string | null); "question"?: number; "text"?: string; "deadlineAt"?: string; };
    Job: { "jobKey": string; "label": string; "taskKey": (string | null); "outputBytes": number; "ended": boolean; [key: string]: unknown; };
    KeptSnapshot: { "id": string; "state": string; "reason": string; "sizeBytes": (number | null); "createdAt": string; "expiresAt": string; [key: string]: unknown; };
    Key: { "id": string; "name": string; "scope": ("read" | "build" | "admin"); "status": ("active" | "expired" | "revoked"); "createdBy": (string | null); "createdAt": string; "expiresAt": (string | null); "revokedAt": (string | null); "usedAt": (string | null); [key: string]: unknown; };
    ListedMessage: (components["schemas"]["Message"] & { "state": ("delivered" | "waiting" | "missed"); [key: string]: unknown; });
    Log: { "attempt": number; "text": string; "nextOffset": number; "ended": boolean; [key: string]: unknown; };
    MachineCheck: { "name": string; "ok": boolean; "detail": string; "remedy": (string | null); "needed": boolean; [key: string]: unknown; };
    Memory: { "text": string; "tag": string; [key: string]: unknown; };
    Message: { "id": number; "by": string; "text": string; "urgent": boolean; "createdAt": string; [key: string]: unknown; };
    NewKey: (components["schemas"]["Key"] & { "tenant": string; "key": string; [key: string]: unknown; });
    Notification: { "id": string; "buildId": string; "event": string; "title": string; "to": string; "status": ("waiting" | "sent" | "dead"); "tries": number; "problem": (string | null); "nextAt": (string | null); "createdAt": string; "sentAt": (string | null); [key: string]: unknown; };
    OpenQuestion: { "id": number; "from": string; "text": string; "reason": string; "options": { "name": string; "kind": string; }[]; "askedAt": string; "deadlineAt": string; };
    PersonsFinding: { "id": number; "kind": string; "task": (string | null); "file": (string | null); "line": (number | null); "endLine": (number | null); "text": string; "by": string; "createdAt": string; "state": ("open" | "given" | "resolved" | "superseded"); "outcome": string; [key: string]: unknown; };
    PersonsFindingRow: (components["schemas"]["PersonsFinding"] & { "wave": (number | null); [key: string]: unknown; });
    Plan: { "name": string; "description": (string | null); "approval": string; "tasks": components["schemas"]["PlanTask"][]; [key: string]: unknown; };
    PlanCheck: { "waves": { "number": number; "tasks": string[]; [key: string]: unknown; }[]; "criticalPath": string[]; "faults": components["schemas"]["PlanFault"][]; "warnings": string[]; [key: string]: unknown; };
    PlanEdit: { "added": string[]; "again": string[]; "removed": string[]; "kept": string[]; [key: string]: unknown; };
    PlanFault: { "code": string; "path": string; "line": (number | null); "message": string; };
    PlanTask: { "key": string; "title": string; "agent": string; "dependsOn": string[]; "instructions": (string | null); "run": (string | null); "writes": (string[] | null); "acceptance": { "text": string; "check": (string | null); }[]; "timeoutMs": number; "retries": number; [key: string]: unknown; };
    Preview: { "id": string; "buildId": string; "projectId": string; "wave": number; "status": string; "reason": (string | null); "url": (string | null); [key: string]: unknown; };
    Problem: { "status": number; "code": string; "detail": string; "remedy"?: string; [key: string]: unknown; };
    Project: { "id": string; "name": string; "createdAt": string; [key: string]: unknown; };
    PullRequest: { "repo": string; "branch": string; "base": (string | null); "number": (number | null); "url": (string | null); "wave": number; "commit": string; "status": string; "merge": string; "mergeCommit": (string | null); "checks": { "name": string; "state": ("pending" | "passed" | "failed"); "url": (string | null); }[]; "commits": { "sha": string; "title": string; "author": string; "at": string; }[]; "problem": (string | null); "remedy": (string | null); };
    Removal: { "busy": boolean; "keepsBuilds": boolean; "dryRun": boolean; "bytes": number; "items": components["schemas"]["Garbage"][]; [key: string]: unknown; };
    RestorePoint: { "buildId": string; "wave": number; "commit": string; "isMain": boolean; "createdAt": string; [key: string]: unknown; };
    Sandbox: { "id": string; "projectId": string; "driver": string; "state": string; "reason": (string | null); "createdAt": string; "startedAt": (string | null); "stoppedAt": (string | null); [key: string]: unknown; };
    SandboxUsage: { "id": string; "project": string; "projectId": string; "driver": string; "state": string; "wall": ({ "isolation": ("bubblewrap" | "users" | "none"); "runtime": (string | null); } | null); "reason": (string | null); "createdAt": string; "since": (string | null); "idleMs": (number | null); "cpus": (number | null); "memoryBytes": (number | null); "processes": (number | null); "diskBytes": (number | null); "diskCountedAt": (string | null); [key: string]: unknown; };
    Schedule: { "id": string; "project": string; "projectId": string; "name": string; "cron": string; "timezone": string; "status": ("active" | "paused"); "nextAt": (string | null); "failures": number; "lastBuildId": (string | null); "lastRunAt": (string | null); "note": (string | null); [key: string]: unknown; };
    Session: { "tenant": string; "scopes": ("read" | "build" | "admin")[]; "name": string; [key: string]: unknown; };
    Settings: { "text": string; "tag": string; "restartNeeded": boolean; "items": { "name": string; "key": (string | null); "value": (string | null); "isSecret": boolean; "isSet": boolean; "source": string; [key: string]: unknown; }[]; [key: string]: unknown; };
    Snapshot: { "id": string; "project": string; "projectId": string; "sandboxId": string; "state": string; "reason": string; "format": string; "sizeBytes": (number | null); "sha256": (string | null); "error": (string | null); "createdAt": string; "expiresAt": string; [key: string]: unknown; };
    SpendingPart: { "day": string; "role": string; "model": string; "calls": number; "tokens": number; "usd": (number | null); "knownUsd": number; "unpricedCalls": number; [key: string]: unknown; };
    Spent: { "calls": number; "tokens": number; "usd": (number | null); "knownUsd": number; "unpricedCalls": number; };
    SpentSum: { "tokens": number; "usd": (number | null); "knownUsd": number; "unpricedCalls": number; };
    Task: { "id": string; "title": string; "agent": string; "dependsOn": string[]; "status": string; "attempts": number; "reason": (string | null); "summary": (string | null); "commit": (string | null); "changedFiles": (string[] | null); [key: string]: unknown; };
    TaskDetail: (components["schemas"]["Task"] & { "eachAttempt": { "number": number; "status": string; "outcome": (string | null); "reason": (string | null); "commit": (string | null); "startedAt": (string | null); "endedAt": (string | null); }[]; [key: string]: unknown; });
    TaskState: { "id": string; "agent": string; "status": string; "wave": (number | null); "attempts": number; "spent": components["schemas"]["Spent"]; "reason": (string | null); "waitsFor": (string | null); [key: string]: unknown; };
    Tenant: { "id": string; "name": string; "limits": { "builds": (number | null); "tasks": (number | null); "sandboxes": (number | null); "usd": (number | null); [key: string]: unknown; }; "own": string[]; "use": { "builds": (number | null); "tasks": (number | null); "sandboxes": (number | null); "usd": (number | null); [key: string]: unknown; }; [key: string]: unknown; };
    Wave: { "number": number; "status": string; "gates": { "name": string; "verdict": string; "rounds": number; }[]; "commit": (string | null); "findings": components["schemas"]["GateFinding"][]; [key: string]: unknown; };
    Work: { "id": string; "kind": string; "task": (string | null); "label": string; "number": number; "status": string; "outcome": (string | null); "reason": (string | null); "lastAction": (string | null); "createdAt": string; "startedAt": (string | null); "endedAt": (string | null); };
    WrittenFile: { "path": string; "commit": string; "tag": string; "sizeBytes": number; [key: string]: unknown; };
  };
}

export interface paths {
  "/api/v1/agents": {
    /** Try every known agent in a sandbox on the server's machine, and show what each one lacks */
    get: { parameters: { query?: { "again"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Agents"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/audit": {
    /**
     * List who asked for which change, newest first; in every tenant for admins of the default
     * tenant
     */
    get: { parameters: { query?: { "cursor"?: string; "limit"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["AuditEntry"][]; "nextCursor": (string | null); [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds": {
    /** List builds, newest first */
    get: { parameters: { query?: { "cursor"?: string; "limit"?: number; "project"?: string; "status"?: ("queued" | "running" | "waiting" | "cancelling" | "completed" | "failed" | "cancelled"); "id"?: string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["BuildRow"][]; "nextCursor": (string | null); "spent": components["schemas"]["SpentSum"]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /**
     * Start a build of {project, plan, brief, …}; the first build of a project makes the
     * project
     */
    post: { parameters: {  }; requestBody: { content: { "application/yaml": string; "application/json": unknown; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}": {
    /** Show a build with its waves and tasks */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/approve": {
    /** Approve the wave or the drafted plan that waits */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "by"?: string; "about"?: { "waveNumber": number; "sha": (string | null); }; }; } }; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/bundle": {
    /**
     * Download what a build, a task or a wave made: a git bundle with its history as the branch
     * main
     */
    get: { parameters: { path: { "id": string; }; query?: { "task"?: string; "wave"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/x-git-bundle": string; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/cancel": {
    /** Cancel a build and keep its work */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "reason"?: string; }; } }; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/changes": {
    /** List the files that a build, one of its tasks or one of its waves changed */
    get: { parameters: { path: { "id": string; }; query?: { "task"?: string; "wave"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Changes"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/diff": {
    /** Show what a build, one of its tasks or one of its waves changed */
    get: { parameters: { path: { "id": string; }; query?: { "task"?: string; "wave"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "text/x-diff": string; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/events": {
    /** Follow the events of a build (server-sent events; resumes after Last-Event-ID) */
    get: { parameters: { path: { "id": string; }; query?: { "after"?: (number | null); "follow"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "text/event-stream": string; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/findings": {
    /** List people's comments on a build's work, with what became of them */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["PersonsFindingRow"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Comment on a build's work: a finding for the wave's fixer or a task's next attempt */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "text": string; "by"?: string; "file"?: string; "line"?: number; "endLine"?: number; "task"?: string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["PersonsFinding"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/gates": {
    /** Show the gate runs of a build, with evidence and findings */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["GateRun"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/graph": {
    /**
     * Show a build's tasks by wave, also of waves to come, with the times of its attempts and
     * gate runs
     */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["BuildGraph"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/jobs": {
    /** List everything that a build ran, oldest first, with how many bytes it printed */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Job"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/jobs/{job}/output": {
    /** Read parts of a job's output that begin after an offset in bytes */
    get: { parameters: { path: { "id": string; "job": string; }; query?: { "after"?: (number | null); "limit"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": { "at": string; "startsAt": number; "text": string; [key: string]: unknown; }[]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/plan": {
    /** Show the plan that a build follows */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Plan"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Continue a build that is not running with an edited plan; unchanged tasks keep their work */
    put: { parameters: { path: { "id": string; }; query?: { "interactive"?: ("true" | "false"); }; }; requestBody: { content: { "application/yaml": string; "application/json": unknown; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["PlanEdit"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/plan/text": {
    /** Show the plan that a build follows as a plan file, to be edited and sent back */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/yaml": string; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/questions": {
    /** List what agents of a build asked a person */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": { "id": number; "text": string; [key: string]: unknown; }[]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/questions/{n}/answer": {
    /** Allow or deny what an agent asked */
    post: { parameters: { path: { "id": string; "n": (("open") | number); }; }; requestBody: { content: { "application/json": { "answer": ("allow" | "deny"); "by"?: string; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "id": number; "text": string; "answer": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/reject": {
    /** Reject the wave or the drafted plan that waits; a retry passes the reason on */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "by"?: string; "about"?: { "waveNumber": number; "sha": (string | null); }; "reason": string; }; } }; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/resume": {
    /** Continue a build that waits for no decision, such as after a rollback */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "interactive"?: boolean; }; } }; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/retry": {
    /** Start new attempts for what failed */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "model"?: string; "agent"?: string; "interactive"?: boolean; "unchanged"?: boolean; }; } }; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/rollback": {
    /**
     * Move main back to the end of a wave (0 is where the build began), or undo the last
     * rollback
     */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": ({ "wave": number; } | { "undo": (true); }); } }; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/tasks": {
    /** List the tasks of a build, in the order of its plan */
    get: { parameters: { path: { "id": string; }; query?: { "cursor"?: string; "limit"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Task"][]; "nextCursor": (string | null); [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/tasks/{task}": {
    /** Show a task with its attempts */
    get: { parameters: { path: { "id": string; "task": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["TaskDetail"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/tasks/{task}/logs": {
    /**
     * Read an attempt's output from an offset in bytes; follow=true sends it as server-sent
     * events
     */
    get: { parameters: { path: { "id": string; "task": string; }; query?: { "offset"?: (number | null); "attempt"?: number; "follow"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Log"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/tasks/{task}/messages": {
    /** List what people told the agent of a task */
    get: { parameters: { path: { "id": string; "task": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["ListedMessage"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Say something to the agent of a task; now=true interrupts its turn */
    post: { parameters: { path: { "id": string; "task": string; }; }; requestBody: { content: { "application/json": { "text": string; "by"?: string; "now"?: boolean; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Message"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/tasks/{task}/prompt": {
    /** Read what an attempt's agent is told, by default the last one's; memory is as it is now */
    get: { parameters: { path: { "id": string; "task": string; }; query?: { "attempt"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "attempt": number; "prompt": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/builds/{id}/view": {
    /** Show all of a build that the command line shows; its fields may change with each release */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "view": { [key: string]: unknown; }; "repository": string; "planFile": (string | null); "buildAhead": (string | null); "lastEvent": (number | null); [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/doctor": {
    /**
     * Try everything that building needs on the server's machine; ?again=true does not wait a
     * minute
     */
    get: { parameters: { query?: { "again"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Doctor"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/gc": {
    /** Remove what is kept longer than the settings say; with dryRun show what would be removed */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "dryRun"?: boolean; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Removal"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/github": {
    /** Show how the server is signed in to GitHub and what it may do there; no secrets */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["GitHubSignIn"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/github/app": {
    /** Begin to sign in as a GitHub App; open the returned page in a browser within ten minutes */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "organization"?: (string | null); }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": { "page": string; "expiresAt": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/github/token": {
    /** Sign in at GitHub with a token, once GitHub has accepted it */
    put: { parameters: {  }; requestBody: { content: { "application/json": { "token": string; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["GitHubSignIn"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/inbox": {
    /** List what waits for a person, in every build */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["InboxItem"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/keys": {
    /** List the keys of your tenant, newest first; admins of the default tenant name any tenant */
    get: { parameters: { query?: { "tenant"?: string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Key"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Create a key; its text is in this answer only */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "name": string; "scope"?: ("read" | "build" | "admin"); "expiresInDays"?: number; "expiresInHours"?: number; "tenant"?: string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["NewKey"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/keys/{id}": {
    /** Revoke a key, and end the sessions that it opened */
    delete: { parameters: { path: { "id": string; }; query?: { "tenant"?: string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Key"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/notifications": {
    /**
     * List what `notify` sent, and what waits or was given up; ?latest=true: the newest first,
     * on one page
     */
    get: { parameters: { query?: { "cursor"?: string; "limit"?: number; "status"?: ("waiting" | "sent" | "dead"); "latest"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Notification"][]; "nextCursor": (string | null); [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/notifications/replay": {
    /** Send a notification again, or all that were not sent, and wait for the outcome */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "id"?: string; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "tried": number; "failed": components["schemas"]["Notification"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/notifications/{id}/replay": {
    /** Send a notification again */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Notification"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/plans/check": {
    /** Check a plan: its waves, critical path and faults with their lines */
    post: { parameters: {  }; requestBody: { content: { "application/yaml": string; "application/json": unknown; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["PlanCheck"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/previews": {
    /** List the previews that are shown or asleep; a preview has the id of its build */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Preview"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/previews/{id}/start": {
    /** Start the preview of a finished or waiting build */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Preview"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/previews/{id}/stop": {
    /** Stop a preview */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 202: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Preview"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects": {
    /** List projects by name, or find the one with this name */
    get: { parameters: { query?: { "cursor"?: string; "limit"?: number; "name"?: string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Project"][]; "nextCursor": (string | null); [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Make a project, or return the one with this name */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "name": string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Project"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}": {
    /** Show a project */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Project"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/builds": {
    /**
     * Start a build of a plan (JSON or YAML), or of {plan, brief, metadata, requestedBy,
     * interactive}
     */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/yaml": string; "application/json": unknown; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Build"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/events": {
    /** Follow the events of a project's builds and sandbox */
    get: { parameters: { path: { "id": string; }; query?: { "after"?: (number | null); "follow"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "text/event-stream": string; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/files": {
    /** List a folder of main (path; default: the top), or of a build's, wave's or task's commit */
    get: { parameters: { path: { "id": string; }; query?: { "cursor"?: string; "limit"?: number; "build"?: string; "task"?: string; "wave"?: number; "path"?: string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Folder"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/files/{path}": {
    /** Read a file of main, or of a build's, wave's or task's commit */
    get: { parameters: { path: { "id": string; "path": string; }; query?: { "build"?: string; "task"?: string; "wave"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": string; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /**
     * Commit a file to main while no build is active; with If-Match only if it is still the one
     * you read
     */
    put: { parameters: { path: { "id": string; "path": string; }; query?: { "by"?: string; "message"?: string; }; }; requestBody: { content: { "application/octet-stream": string; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["WrittenFile"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/memory": {
    /** Show what a project remembers of its builds, in Markdown */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Memory"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Replace what a project remembers; with If-Match only if it is still the one you read */
    put: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "text": string; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Memory"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/restore-points": {
    /** List where main can be rolled back to, newest first; wave 0 is where a build began */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["RestorePoint"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/sandbox/exec": {
    /** Run a short command in the joined tree */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "argv": string[]; "timeoutMs"?: number; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "exitCode": (number | null); "stdout": string; "stderr": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/sandbox/restore": {
    /** Replace a project's volume with a snapshot (default: the latest) */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "snapshot"?: string; }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Snapshot"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/sandbox/snapshot": {
    /** Take a snapshot of a project's volume */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "format"?: string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Snapshot"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/sandbox/start": {
    /** Start a project's sandbox */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": (components["schemas"]["Sandbox"] & { "workspaceRoot": string; [key: string]: unknown; }); } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/sandbox/stop": {
    /** Stop a project's sandbox and keep its volume */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Sandbox"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/schedules": {
    /**
     * Make the schedules that people added to a project those of a wavesmith.yaml with its plan
     * inside
     */
    put: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/yaml": string; "application/json": unknown; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Schedule"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/snapshots": {
    /** List the latest 100 snapshots of a project's volume, newest first */
    get: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["KeptSnapshot"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/sources": {
    /**
     * Upload a source: a git bundle of the branch main; a build of the project names it as
     * {upload: ID}
     */
    post: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/x-git-bundle": string; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": { "id": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/projects/{id}/spending": {
    /** Show what a project spent on models in the last days, by day (UTC), role and model */
    get: { parameters: { path: { "id": string; }; query?: { "days"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["SpendingPart"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/sandboxes": {
    /** List sandboxes */
    get: { parameters: { query?: { "cursor"?: string; "limit"?: number; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Sandbox"][]; "nextCursor": (string | null); [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Make the sandbox of a project, or start the one it has, as its last build would */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "project": string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Sandbox"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/sandboxes/usage": {
    /** List sandboxes and kept volumes with what they use now: processors, memory and disk */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["SandboxUsage"][]; "warnings": string[]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/sandboxes/{id}": {
    /** Remove a sandbox, named by its id or project, and its volume with ?volume=true */
    delete: { parameters: { path: { "id": string; }; query?: { "volume"?: ("true" | "false"); }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Sandbox"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/schedules": {
    /** List what starts builds by the clock, the next one first */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Schedule"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/schedules/{id}": {
    /** Remove a schedule that a person added */
    delete: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "id": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/schedules/{id}/pause": {
    /** Pause a schedule */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Schedule"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/schedules/{id}/resume": {
    /** Run a paused schedule again, from its next time on */
    post: { parameters: { path: { "id": string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Schedule"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/session": {
    /** Sign the browser out */
    delete: { parameters: {  }; requestBody?: never; responses: { 204: { headers: { [name: string]: unknown }; content: never }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Show who is asking: the tenant, the scopes and the name of the key */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Session"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /** Sign a browser in: a key becomes a cookie, and a token for the header x-wavesmith */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "key": string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": { "token": string; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/session/link": {
    /** Make a link that signs a browser in once, within five minutes */
    post: { parameters: {  }; requestBody: { content: { "application/json": { "key": string; }; } }; responses: { 201: { headers: { [name: string]: unknown }; content: { "application/json": { "path": string; "expiresInSeconds": number; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/session/providers": {
    /**
     * List where people may sign in besides with a key; a browser opens `path`, with `to` for
     * later
     */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": { "name": string; "path": string; [key: string]: unknown; }[]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/settings": {
    /** Show the settings in use, where each came from, and the settings file; no secrets */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Settings"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
    /**
     * Replace the settings file (YAML or JSON); it counts from the server's next start on. Takes
     * If-Match
     */
    put: { parameters: {  }; requestBody: { content: { "application/yaml": string; "application/json": unknown; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Settings"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/snapshots": {
    /** List the snapshots of volumes that are kept, being written or failed, oldest first */
    get: { parameters: { query?: { "sandbox"?: string; }; }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Snapshot"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/tenants": {
    /**
     * List tenants with their limits and what they use; yours, or all for admins of the default
     * tenant
     */
    get: { parameters: {  }; requestBody?: never; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": { "items": components["schemas"]["Tenant"][]; [key: string]: unknown; }; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
  "/api/v1/tenants/{id}/limits": {
    /** Set limits of a tenant, by its name; null: none, default: as the settings say */
    put: { parameters: { path: { "id": string; }; }; requestBody: { content: { "application/json": { "builds"?: (number | null | ("default")); "tasks"?: (number | null | ("default")); "sandboxes"?: (number | null | ("default")); "usd"?: (number | null | ("default")); }; } }; responses: { 200: { headers: { [name: string]: unknown }; content: { "application/json": components["schemas"]["Tenant"]; } }; default: { headers: { [name: string]: unknown }; content: { "application/problem+json": components["schemas"]["Problem"]; } }; } };
  };
}
