import type { AddedCheck } from "../domain/gate/added-checks.ts";
import type { Evidence, Finding } from "../domain/gate/finding.ts";
import type { Severity, Verdict } from "../domain/status.ts";
import type { StageState } from "../sandbox/port.ts";
import type { ChangedFile } from "../workspace/port.ts";
import type { EarlierCounts } from "./counts/fewer-tests.ts";
import type { ReviewScope, SortedReview } from "./review-scope.ts";
import type { SecondVerdict } from "./second-look.ts";

export type { EarlierCounts } from "./counts/fewer-tests.ts";
export type { SortedReview } from "./review-scope.ts";

/** Reads files of one commit, never of a live tree. */
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
  /** The commands of the gates and of setup; null stands for a command to be detected. */
  readonly commands: readonly (string | null)[];
}

/** A changed file that decides what a gate runs. */
export interface GateFile {
  readonly file: string;
  /** The effect of the change, in words for people. */
  readonly what: string;
  /** Whether `mayChangeTests` permits the change without a name in `writes`. */
  readonly aboutTests: boolean;
  /** Whether the project had no such file before. */
  readonly isNew: boolean;
}

export interface StaticCheckRequest {
  /** The change between the wave's base and its head. */
  readonly changed: readonly ChangedFile[];
  /** The values of the agents' secrets, by name: no file may contain one. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly before: CommitReader;
  readonly after: CommitReader;
  /** The changes of each joined task (or fix), with its declared writes. */
  readonly changes: readonly {
    readonly taskKey: string;
    readonly writes: readonly string[] | null;
    readonly mayChangeTests: boolean;
    readonly files: readonly string[];
  }[];
  /** Changes to files that instruct agents, and whether a declared glob names each. */
  readonly agentFiles: readonly { readonly taskKey: string; readonly file: string; readonly declared: boolean }[];
  /** Changes to gate files, and why each is allowed; null if it is not. */
  readonly gateFiles?: readonly {
    readonly taskKey: string;
    readonly file: string;
    readonly what: string;
    readonly allowed: "declared" | "may-change-tests" | "first" | null;
  }[];
}

/**
 * A sandbox stage that checks the syntax of changed files in a language we cannot parse ourselves.
 */
export interface SyntaxCheck {
  readonly name: string;
  readonly argv: readonly string[];
  readonly files: readonly string[];
}

/** The report outside the tree that the plan requires of the testing command. */
export interface TestReport {
  readonly format: "junit" | "tap";
  /** Null if there is no readable report. */
  readonly text: string | null;
  /** Why the file is not a report; null if it is one, or if there is none. */
  readonly odd: string | null;
}

export interface CommandVerdictRequest {
  readonly sha: string;
  readonly command: string;
  readonly stage: StageState;
  /** The stage's output with secrets masked; only its beginning and end if it was long. */
  readonly output: string;
  /** JUnit XML reports found in the tree after the run, by path. */
  readonly junit: readonly { path: string; xml: string }[];
  /** Testing only: the number of tests required for a pass; null elsewhere. */
  readonly minTests: number | null;
  /**
   * The counts of the same gate on the wave's base; absent or null if there is nothing to compare.
   */
  readonly earlier?: EarlierCounts | null;
  /** If present, tests are counted from this report alone. */
  readonly report?: TestReport | undefined;
  /** Files at the usual report paths that are not reports, such as a named pipe. */
  readonly oddReports?: readonly string[];
}

export interface GateResult {
  readonly verdict: Verdict;
  readonly evidence: Evidence;
  readonly findings: Finding[];
  /** For `inconclusive`: `command-not-found` blocks the wave, the others may go to the fixer. */
  readonly reason: "command-not-found" | "too-few-tests" | "timed-out" | null;
}

/** A check as submitted by a gate's agent. */
export type ProposedCheck = Pick<AddedCheck, "name" | "command" | "why">;

export interface AddedCheckRequest {
  readonly sha: string;
  readonly check: AddedCheck;
  /** Null if the job ended before the check ran. */
  readonly stage: StageState | null;
  /** The stage's output, secrets masked. */
  readonly output: string;
  /** Paths that the check needs and that its tree did not have. */
  readonly missing: readonly string[];
  /** Why the job ended before this check ran. */
  readonly jobEnd: string | null;
}

export interface JudgedCheck {
  readonly result: NonNullable<AddedCheck["result"]>;
  readonly findings: Finding[];
}

/** Judges gates. Pure, except for reading commits. */
export interface Gates {
  detectTests(reader: CommitReader): Promise<DetectedTests | null>;
  staticChecks(request: StaticCheckRequest): Promise<Finding[]>;
  /** Finds changed gate files whose deciding part changed. */
  gateFiles(request: GateFilesRequest): Promise<GateFile[]>;
  syntaxChecks(changed: readonly ChangedFile[]): SyntaxCheck[];
  /** Reads findings from the output of a failed syntax check. */
  syntaxFindings(check: SyntaxCheck, stage: StageState, output: string): Finding[];
  /**
   * Judges a command's run: exit 0 passes, 127 and too few tests are inconclusive, anything else
   * fails with findings.
   */
  judgeCommand(request: CommandVerdictRequest): GateResult;
  /**
   * Reads the findings in a critic's result file. Throws `usage` with the problems when it does not
   * match the schema.
   */
  parseReview(resultFile: string): Finding[];
  /** The JSON schema of a critic's result. */
  readonly reviewSchema: unknown;
  /**
   * Separates a critic's findings that may block from the others, which are kept with the reason.
   */
  sortReview(findings: readonly Finding[], scope: ReviewScope): Promise<SortedReview>;
  /**
   * Reads a second look's verdict on each finding, in order. Throws `usage` when it cannot be read.
   */
  parseSecondLook(resultFile: string, asked: readonly Finding[]): SecondVerdict[];
  /** The JSON schema of a second look's result. */
  readonly secondLookSchema: unknown;
  /** Marks a finding as unable to block, with the reason. */
  setAside(finding: Finding, why: string): Finding;
  /**
   * Reads the checks that a gate's agent submitted. Throws `usage` with the problems when they do
   * not match the schema.
   */
  parseChecks(resultFile: string): ProposedCheck[];
  /** The JSON schema of a gate agent's result. */
  readonly checksSchema: unknown;
  /** Finds words of a command that may be paths below the tree's root. */
  pathsIn(command: string): string[];
  /** Judges an added check that we ran: passed, failed with an exit code, or not a valid check. */
  judgeAddedCheck(request: AddedCheckRequest): JudgedCheck;
  /** Returns `failed` when a finding is at or above `block`. */
  judgeFindings(findings: readonly Finding[], block: Severity): Verdict;
  /**
   * Returns the same text for the same findings, whatever their order, line numbers and run times
   * (W7: repeated findings end the fixes).
   */
  fingerprint(findings: readonly Finding[]): string;
  /** Whether the finding is about a test that was deleted, reduced, switched off or emptied. */
  isWeakenedTest(finding: Finding): boolean;
}
