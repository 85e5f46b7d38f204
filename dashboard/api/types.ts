// The parts of the API's replies that the dashboard uses.

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}

export interface Spent {
  readonly calls: number;
  readonly tokens: number;
  /** Null if the price of any call is unknown; `knownUsd` then sums the others. */
  readonly usd: number | null;
  readonly knownUsd: number;
  readonly unpricedCalls: number;
}

export type BuildStatus = "queued" | "running" | "waiting" | "cancelling" | "completed" | "failed" | "cancelled";

export interface BuildRow {
  readonly id: string;
  readonly project: string;
  readonly projectId: string;
  readonly status: BuildStatus;
  readonly reason: string | null;
  readonly tasks: number;
  readonly head: string | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
}

export interface Finding {
  readonly rule: string;
  readonly severity: "low" | "medium" | "high" | "critical";
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
}

/** A person's finding. */
export interface Comment {
  readonly id: number;
  readonly task: string | null;
  readonly wave: number | null;
  readonly file: string | null;
  readonly line: number | null;
  readonly endLine: number | null;
  readonly text: string;
  readonly by: string;
  readonly createdAt: string;
  readonly state: "open" | "given" | "resolved" | "superseded";
  /** Its outcome, such as `resolved by fix 1`. */
  readonly outcome: string;
}

export interface TaskState {
  readonly id: string;
  readonly agent: string;
  readonly status: string;
  readonly wave: number | null;
  readonly attempts: number;
  readonly spent: Spent;
  readonly reason: string | null;
  readonly waitsFor: string | null;
}

export interface WaveState {
  readonly number: number;
  readonly status: string;
  readonly gates: readonly { readonly name: string; readonly verdict: string; readonly rounds: number }[];
  readonly commit: string | null;
  readonly findings: readonly Finding[];
}

export interface OpenQuestion {
  readonly id: number;
  readonly from: string;
  readonly text: string;
  readonly reason: string;
  readonly options: readonly { readonly name: string; readonly kind: string }[];
  readonly askedAt: string;
  readonly deadlineAt: string;
}

export interface Build {
  readonly id: string;
  readonly projectId: string;
  readonly project: string;
  readonly brief?: string;
  readonly status: BuildStatus;
  readonly phase: string;
  readonly reason: string | null;
  readonly questions: readonly OpenQuestion[];
  readonly waitsForSandbox: { readonly reason: string; readonly remedy: string } | null;
  readonly sandboxTrouble: string | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly sandbox: string;
  readonly spent: Spent;
  readonly budget: { readonly tokens: number | null; readonly usd: number | null };
  readonly waves: readonly WaveState[];
  readonly tasks: readonly TaskState[];
  readonly preview: { readonly wave: number; readonly status: string; readonly url: string | null } | null;
  readonly repository: string;
  readonly head: string | null;
}

/** An attempt or a gate run, with its times. */
export interface Work {
  readonly id: string;
  readonly kind: string;
  readonly task: string | null;
  readonly label: string;
  readonly number: number;
  readonly status: string;
  readonly outcome: string | null;
  readonly reason: string | null;
  readonly lastAction: string | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
}

export interface GraphWave {
  readonly number: number;
  /** `planned` for a wave that has not begun. */
  readonly status: string;
  readonly tasks: readonly string[];
  readonly reason: string | null;
  readonly fixRounds: number;
  readonly base: string | null;
  readonly head: string | null;
  readonly createdAt: string | null;
  readonly endedAt: string | null;
  readonly spent: Spent | null;
  readonly work: readonly Work[];
}

export interface GraphTask {
  readonly id: string;
  readonly title: string;
  readonly agent: string;
  readonly status: string;
  readonly dependsOn: readonly string[];
  readonly wave: number;
  readonly spent: Spent;
}

export interface BuildGraph {
  readonly waves: readonly GraphWave[];
  readonly tasks: readonly GraphTask[];
  readonly criticalPath: readonly string[];
}

export interface TaskDetail {
  readonly id: string;
  readonly title: string;
  readonly agent: string;
  readonly dependsOn: readonly string[];
  readonly status: string;
  readonly attempts: number;
  readonly reason: string | null;
  readonly summary: string | null;
  readonly commit: string | null;
  readonly changedFiles: readonly string[] | null;
  readonly eachAttempt: readonly {
    readonly number: number;
    readonly status: string;
    readonly outcome: string | null;
    readonly reason: string | null;
    readonly commit: string | null;
    readonly startedAt: string | null;
    readonly endedAt: string | null;
  }[];
}

export interface Evidence {
  readonly sha: string;
  readonly command: string | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly timedOut: boolean;
  readonly durationMs: number;
  readonly outputTail: string;
  readonly tests: {
    readonly total: number;
    readonly passed: number;
    readonly failed: number;
    readonly skipped: number;
    readonly source: string;
  } | null;
  readonly notes: readonly string[];
}

export interface GateRun {
  readonly id: string;
  readonly wave: number;
  readonly gate: string;
  readonly round: number;
  readonly sha: string;
  readonly status: string;
  readonly verdict: string | null;
  readonly reason: string | null;
  readonly evidence: Evidence | null;
  readonly findings: readonly Finding[];
  readonly createdAt: string;
  readonly endedAt: string | null;
}

export interface PlanTask {
  readonly key: string;
  readonly title: string;
  readonly agent: string;
  readonly dependsOn: readonly string[];
  readonly instructions: string | null;
  readonly run: string | null;
  readonly writes: readonly string[] | null;
  readonly acceptance: readonly { readonly text: string; readonly check: string | null }[];
  readonly timeoutMs: number;
  readonly retries: number;
}

export interface Plan {
  readonly name: string;
  readonly description: string | null;
  readonly tasks: readonly PlanTask[];
  readonly approval: string;
}

export interface PlanFault {
  readonly code: string;
  readonly path: string;
  readonly line: number | null;
  readonly message: string;
}

export interface PlanCheck {
  readonly waves: readonly { readonly number: number; readonly tasks: readonly string[] }[];
  readonly criticalPath: readonly string[];
  readonly faults: readonly PlanFault[];
  readonly warnings: readonly string[];
}

export interface Log {
  readonly attempt: number;
  readonly text: string;
  readonly nextOffset: number;
  readonly ended: boolean;
}

export interface InboxItem {
  readonly kind: "build" | "question" | "failed";
  readonly buildId: string;
  readonly project: string;
  readonly phase: string;
  readonly wave: number | null;
  /** The decision that a waiting build needs; null if it only has to be resumed. */
  readonly decision: "wave" | "plan" | null;
  /** The gate that blocks its last wave, with the first thing it found. */
  readonly failedGate: { readonly id: string; readonly gate: string; readonly finding: string | null } | null;
  readonly since: string;
  readonly reason?: string | null;
  readonly question?: number;
  readonly text?: string;
  readonly deadlineAt?: string;
}

export interface Project {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
}

export interface Sandbox {
  readonly id: string;
  readonly projectId: string;
  readonly driver: string;
  readonly state: string;
  readonly reason: string | null;
  readonly startedAt: string | null;
  readonly stoppedAt: string | null;
}

export interface Snapshot {
  readonly id: string;
  readonly state: string;
  /** The reason for the snapshot, such as `asked`. */
  readonly reason: string;
  readonly sizeBytes: number | null;
  readonly createdAt: string;
  readonly expiresAt: string;
}

export interface Preview {
  readonly id: string;
  readonly buildId: string;
  readonly projectId: string;
  readonly wave: number;
  readonly status: string;
  readonly reason: string | null;
  readonly url: string | null;
}

export interface Session {
  readonly tenant: string;
  readonly scopes: readonly string[];
  readonly name: string;
}

export interface Key {
  readonly id: string;
  readonly name: string;
  readonly scope: string;
  readonly status: string;
  readonly createdAt?: string | null;
  readonly expiresAt?: string | null;
}

export interface Lack {
  readonly what: string;
  readonly remedy: string;
}

export interface Doctor {
  readonly ok: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly ok: boolean;
    readonly detail: string;
    readonly remedy: string | null;
    /** No build works without it. */
    readonly needed: boolean;
  }[];
}

export interface Agents {
  readonly sandbox: string;
  readonly untried: Lack | null;
  readonly agents: readonly {
    readonly name: string;
    readonly title: string;
    readonly command: string | null;
    readonly installed: string | null;
    readonly greeting: { readonly answers: boolean } | null;
    readonly signedInWith: readonly string[];
    readonly lacks: readonly Lack[];
  }[];
}

export interface Folder {
  readonly commit: string;
  readonly path: string;
  readonly items: readonly {
    readonly path: string;
    readonly name: string;
    readonly kind: string;
    readonly sizeBytes: number | null;
  }[];
  readonly nextCursor: string | null;
}

export interface Memory {
  readonly text: string;
  readonly tag: string;
}

export interface SpendingPart extends Omit<Spent, "usd"> {
  readonly day: string;
  readonly role: string;
  readonly model: string;
}
