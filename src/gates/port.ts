import type { AddedCheck } from "../domain/added-checks.ts";
import type { Evidence, Finding } from "../domain/finding.ts";
import type { Severity, Verdict } from "../domain/status.ts";
import type { StageState } from "../sandbox/port.ts";
import type { ChangedFile } from "../workspace/port.ts";
import type { EarlierCounts } from "./counts/fewer-tests.ts";
import type { ReviewScope, SortedReview } from "./review-scope.ts";
import type { SecondVerdict } from "./second-look.ts";

export type { EarlierCounts } from "./counts/fewer-tests.ts";
export type { SortedReview } from "./review-scope.ts";

/** Reads files of one commit; nothing of a live tree. */
export interface CommitReader {
  list(): Promise<{ path: string; mode: string; sizeBytes: number }[]>;
  read(path: string): Promise<Buffer | null>;
}

export interface DetectedTests {
  /** A shell command line for the tree's root. */
  readonly command: string;
  /** `npm`, `pnpm`, `yarn`, `pytest`, `go`, `cargo` or `make`. */
  readonly runner: string;
}

export interface GateFilesRequest {
  readonly changed: readonly ChangedFile[];
  readonly before: CommitReader;
  readonly after: CommitReader;
  /**
   * The commands of the gates and of setup; null stands for one that is detected from the files.
   */
  readonly commands: readonly (string | null)[];
}

/** A changed file that decides what a gate runs. */
export interface GateFile {
  readonly file: string;
  /** What it decides, for people. */
  readonly what: string;
  /** Whether a task that may change tests may change it without naming it. */
  readonly aboutTests: boolean;
  /** Whether there was nothing of the kind before. */
  readonly isNew: boolean;
}

export interface StaticCheckRequest {
  /** What changed between the wave's base and its head. */
  readonly changed: readonly ChangedFile[];
  /** Values of the secrets the agents were given, by name: none may be in a file. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly before: CommitReader;
  readonly after: CommitReader;
  /** What each joined task (or fix) changed, with what it had declared. */
  readonly changes: readonly {
    readonly taskKey: string;
    readonly writes: readonly string[] | null;
    readonly mayChangeTests: boolean;
    readonly files: readonly string[];
  }[];
  /**
   * What tasks and fixes changed that agents read as instructions, and whether it was declared by
   * name.
   */
  readonly agentFiles: readonly { readonly taskKey: string; readonly file: string; readonly declared: boolean }[];
  /**
   * What they changed that decides what a gate runs, and why each was let through; null: it should
   * not have been.
   */
  readonly gateFiles?: readonly {
    readonly taskKey: string;
    readonly file: string;
    readonly what: string;
    readonly allowed: "declared" | "may-change-tests" | "first" | null;
  }[];
}

/**
 * A stage for the sandbox that checks the syntax of changed files in a language we cannot parse
 * here.
 */
export interface SyntaxCheck {
  readonly name: string;
  readonly argv: readonly string[];
  readonly files: readonly string[];
}

/** A report that the plan asks the testing command for, outside the tree. */
export interface TestReport {
  readonly format: "junit" | "tap";
  /** Null: there is none that could be read. */
  readonly text: string | null;
  /** Why what is there is no report; null when it is one, or nothing is there. */
  readonly odd: string | null;
}

export interface CommandVerdictRequest {
  readonly sha: string;
  readonly command: string;
  readonly stage: StageState;
  /** The stage's output, secrets masked (its beginning and end when it was long). */
  readonly output: string;
  /** JUnit XML reports found in the tree after the run, by path. */
  readonly junit: readonly { path: string; xml: string }[];
  /** Testing only: tests that must have run for a pass; null elsewhere. */
  readonly minTests: number | null;
  /** What the same gate counted on the wave's base; absent or null: nothing to compare with. */
  readonly earlier?: EarlierCounts | null;
  /** Tests are counted from this report alone. */
  readonly report?: TestReport | undefined;
  /** What lies at the usual places of reports and is none, such as a named pipe. */
  readonly oddReports?: readonly string[];
}

export interface GateResult {
  readonly verdict: Verdict;
  readonly evidence: Evidence;
  readonly findings: Finding[];
  /** For `inconclusive`: `command-not-found` blocks at once, the others may go to the fixer. */
  readonly reason: "command-not-found" | "too-few-tests" | "timed-out" | null;
}

/** As a gate's agent hands it in. */
export type ProposedCheck = Pick<AddedCheck, "name" | "command" | "why">;

export interface AddedCheckRequest {
  readonly sha: string;
  readonly check: AddedCheck;
  /** Null: the job ended before it. */
  readonly stage: StageState | null;
  /** The stage's output, secrets masked. */
  readonly output: string;
  /** Of what the check needs, what its tree did not have. */
  readonly missing: readonly string[];
  /** Why the job ended early, for checks that it did not come to. */
  readonly jobEnd: string | null;
}

export interface JudgedCheck {
  readonly result: NonNullable<AddedCheck["result"]>;
  readonly findings: Finding[];
}

/** The judgement of gates: pure but for reading commits. */
export interface Gates {
  detectTests(reader: CommitReader): Promise<DetectedTests | null>;
  staticChecks(request: StaticCheckRequest): Promise<Finding[]>;
  /** The changed files that decide what the gates run, where that has changed. */
  gateFiles(request: GateFilesRequest): Promise<GateFile[]>;
  syntaxChecks(changed: readonly ChangedFile[]): SyntaxCheck[];
  /** Findings from the output of a failed syntax check. */
  syntaxFindings(check: SyntaxCheck, stage: StageState, output: string): Finding[];
  /**
   * Judges a command that was run: exit 0 passes, 127 and too few tests are inconclusive, else
   * failed with findings.
   */
  judgeCommand(request: CommandVerdictRequest): GateResult;
  /**
   * Findings a critic agent wrote to its result file; throws `usage` with what is wrong when it is
   * not of the schema.
   */
  parseReview(resultFile: string): Finding[];
  /** What a critic hands in, as a JSON schema. */
  readonly reviewSchema: unknown;
  /** Sorts a critic's findings by whether they may block; the others are kept and say why not. */
  sortReview(findings: readonly Finding[], scope: ReviewScope): Promise<SortedReview>;
  /**
   * What a second look says of each finding it was asked about, in their order; throws `usage` when
   * it cannot be read.
   */
  parseSecondLook(resultFile: string, asked: readonly Finding[]): SecondVerdict[];
  /** What a second look hands in, as a JSON schema. */
  readonly secondLookSchema: unknown;
  /** A finding that is kept and cannot block, saying why. */
  setAside(finding: Finding, why: string): Finding;
  /**
   * The checks that a gate's agent hands in; throws `usage` with what is wrong when they are not of
   * the schema.
   */
  parseChecks(resultFile: string): ProposedCheck[];
  /** What a gate's agent hands in, as a JSON schema. */
  readonly checksSchema: unknown;
  /** Words of a command that may be paths below the tree's root. */
  pathsIn(command: string): string[];
  /**
   * Judges a check of a gate's agent that we ran: passed, failed with an exit code, or not a check
   * at all.
   */
  judgeAddedCheck(request: AddedCheckRequest): JudgedCheck;
  /** `failed` when a finding is at or above `block`. */
  judgeFindings(findings: readonly Finding[], block: Severity): Verdict;
  /**
   * Equal for the same findings, whatever their order, line numbers and run times (W7: the same
   * findings twice end the fixes).
   */
  fingerprint(findings: readonly Finding[]): string;
  /** Whether the finding is of a test that was deleted, reduced, switched off or made empty. */
  isWeakenedTest(finding: Finding): boolean;
}
