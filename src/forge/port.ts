import { type ErrorCode, WavesmithError } from "../domain/errors.ts";
import type { ForgeCheck, ForgeName } from "../domain/forge.ts";
import type { GitHubCredential } from "./settings.ts";

// FP1. Every verb may be called again by a process that does not know how far an earlier one got.
// So it first looks at what exists, and creates nothing twice.
// FP2. A credential is never in a URL, an argument, a message or a repository's file.

/** Why a forge did not do what was asked. */
export type ForgeFault =
  /** The credential is wrong, expired or revoked. */
  | "unauthorized"
  /** The credential is valid but may not do this. */
  | "forbidden"
  | "not-found"
  /** A rule of the repository forbids it. */
  | "protected"
  /** The branch has commits that we did not put there. */
  | "rejected"
  /** A person closed the request. */
  | "closed"
  /** The branches do not merge, or share no history. */
  | "conflict"
  | "rate-limited"
  /** The forge cannot be reached, or fails. */
  | "network"
  /** The forge has nothing newer than what we know. */
  | "unchanged"
  /** The forge rejects our request as invalid. */
  | "invalid";

const codes: Readonly<Record<ForgeFault, ErrorCode>> = {
  unauthorized: "environment",
  forbidden: "environment",
  "not-found": "not-found",
  protected: "conflict",
  rejected: "conflict",
  closed: "conflict",
  conflict: "conflict",
  "rate-limited": "environment",
  network: "environment",
  unchanged: "conflict",
  invalid: "unsupported",
};

export interface ForgeErrorOptions {
  readonly remedy?: string;
  /** When to ask again, if the forge says so. */
  readonly until?: Date;
  readonly cause?: unknown;
}

/** How long to wait where a forge names no time. A new credential is a person's work. */
const usualWaitMs: Readonly<Partial<Record<ForgeFault, number>>> = {
  "rate-limited": 60_000,
  network: 30_000,
  unauthorized: 5 * 60_000,
};

/** A forge's refusal or failure. */
export class ForgeError extends WavesmithError {
  readonly fault: ForgeFault;
  readonly until: Date | null;

  constructor(fault: ForgeFault, message: string, { until, ...options }: ForgeErrorOptions = {}) {
    const usualMs = usualWaitMs[fault];
    const waitMs = until === undefined ? usualMs : Math.max(1_000, until.getTime() - Date.now());
    super(codes[fault], message, {
      ...options,
      retryable: fault === "rate-limited" || fault === "network",
      ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }),
    });
    this.fault = fault;
    this.until = until ?? null;
  }
}

/** A repository at a forge. */
export interface ForgeRepository {
  /** Stays the same when the repository is renamed. */
  readonly id: string;
  /** `owner/name`, as it is now. */
  readonly name: string;
  /** Its page. */
  readonly url: string;
  /** Where git reaches it; without credentials. */
  readonly gitUrl: string;
  readonly defaultBranch: string;
  readonly isPrivate: boolean;
  /** Whether our credential may push to it; null: the forge does not say. */
  readonly mayPush: boolean | null;
}

/** The names under which calls reach a repository. */
export type ForgePlace = Pick<ForgeRepository, "id" | "name" | "gitUrl">;

/** Whose credential it is and what it may do, for `doctor`. */
export interface ForgeIdentity {
  readonly kind: "token" | "app" | "none";
  readonly login: string;
  /** Scopes of a token or permissions of an App, in the forge's words. */
  readonly rights: readonly string[];
  readonly rate: { readonly left: number; readonly limit: number; readonly resetsAt: Date } | null;
  /** The accounts where an App is installed, and the page that installs it; null for a token. */
  readonly installed: { readonly accounts: readonly string[]; readonly url: string } | null;
}

export interface BranchState {
  readonly sha: string;
  readonly isProtected: boolean;
  readonly requiredChecks: readonly string[];
  readonly requiredApprovals: number;
  readonly hasMergeQueue: boolean;
}

/** A file at a commit. */
export interface FileAtForge {
  readonly repository: ForgePlace;
  readonly sha: string;
  readonly path: string;
  readonly maxBytes: number;
}

/** Where a commit came from. */
export interface CommitOrigin {
  readonly parents: readonly string[];
  /** The branches of the requests that brought it into its branch. */
  readonly requestBranches: readonly string[];
}

/** One thing that happened at a forge, as its webhook would tell it. */
export interface NewsItem {
  /** Stays the same when it is read again. */
  readonly id: string;
  readonly event: string;
  readonly payload: unknown;
  readonly at: Date;
}

export interface News {
  /** Oldest first. */
  readonly items: readonly NewsItem[];
  /** With it, the next reading returns null if there is nothing new. */
  readonly etag: string | null;
  /** How long the forge wants us to wait before the next reading. */
  readonly pauseMs: number;
}

/** The branch that a person's pull request offers. */
export interface OfferedBranch {
  /** Null: it is in another repository. */
  readonly branch: string | null;
  readonly sha: string;
  readonly isOpen: boolean;
}

export interface PushRequest {
  readonly repository: ForgePlace;
  /** The bare repository on disk that has the commit. */
  readonly gitDir: string;
  readonly sha: string;
  readonly branch: string;
  /** The commit that we last pushed there; null: none. */
  readonly expected: string | null;
}

/** The failure for a branch that somebody else moved. */
export const foreignCommits = (moved: {
  readonly repository: Pick<ForgePlace, "name">;
  readonly branch: string;
  readonly present: string;
  readonly expected: string | null;
}): ForgeError => {
  const { repository, branch, present, expected } = moved;
  const back = expected === null ? `delete ${branch} there` : `set ${branch} back to ${expected}`;
  return new ForgeError(
    "rejected",
    `the branch ${branch} of ${repository.name} is at ${present.slice(0, 12)}, which we did not put there, so it stays as it is`,
    { remedy: `keep those commits on another branch, and ${back}` },
  );
};

/** The failure for a file that is larger than we read. */
export const tooLarge = (path: string, maxBytes: number): ForgeError =>
  new ForgeError("invalid", `${path} is larger than ${Math.floor(maxBytes / 1024)} KB`, {
    remedy: "make it smaller",
  });

export interface RequestContent {
  readonly repository: ForgePlace;
  /** Identifies the request, such as `bld_x/build`; hidden in its text. */
  readonly key: string;
  readonly branch: string;
  readonly base: string;
  readonly title: string;
  /** Our part of the text, in Markdown; what people write around it stays. */
  readonly body: string;
  /** The request's number if it is known. */
  readonly number: number | null;
}

export interface RequestMade {
  readonly number: number;
  readonly url: string;
  readonly state: "open" | "merged" | "closed";
}

export interface CheckAnnotation {
  readonly path: string;
  readonly line: number;
  readonly level: "notice" | "warning" | "failure";
  readonly message: string;
}

export interface CheckReport {
  readonly repository: ForgePlace;
  readonly sha: string;
  /** Identifies the check: reporting again with the same key updates it. */
  readonly key: string;
  readonly name: string;
  readonly conclusion: "success" | "failure" | "neutral";
  /** One line. */
  readonly title: string;
  /** Markdown. */
  readonly summary: string;
  readonly annotations: readonly CheckAnnotation[];
}

export interface RequestState extends RequestMade {
  readonly headSha: string;
  readonly base: string;
  /** Null while the forge is still computing it. */
  readonly isMergeable: boolean | null;
  readonly checks: readonly ForgeCheck[];
  readonly review: "approved" | "changes-requested" | "none";
  /** The commit of the merge. */
  readonly mergeSha: string | null;
}

export type MergeResult = { readonly merged: true; readonly sha: string } | { readonly merged: false };

/** A forge, with one credential. Every verb fails with a `ForgeError`. */
export interface Forge {
  readonly name: ForgeName;
  identify(): Promise<ForgeIdentity>;
  /** Finds a repository by its id if that is given, because it may have been renamed. */
  findRepository(place: { readonly name: string; readonly id: string | null }): Promise<ForgeRepository | null>;
  /** Returns where a repository that was found before is, without a call. */
  locateRepository(found: { readonly name: string; readonly id: string }): ForgePlace;
  /** Makes the repository if it is missing. */
  ensureRepository(wanted: {
    readonly name: string;
    readonly isPrivate: boolean;
    readonly description: string;
  }): Promise<ForgeRepository>;
  /** The environment in which git reaches a URL of this forge; empty for other URLs. */
  gitEnvironment(url: string): Promise<Readonly<Record<string, string>>>;
  readBranch(repository: ForgePlace, branch: string): Promise<BranchState | null>;
  /**
   * Puts a commit on a branch. Does nothing if the branch has it already. Fails with `rejected` if
   * the branch exists and is not where we put it.
   */
  pushBranch(request: PushRequest): Promise<void>;
  /**
   * Opens the pull request with this key, or updates it. Fails with `closed` if a person closed it.
   */
  ensureRequest(content: RequestContent): Promise<RequestMade>;
  /** Writes the comment with this key on a request, or updates it. */
  ensureComment(comment: {
    readonly repository: ForgePlace;
    readonly number: number;
    readonly key: string;
    readonly text: string;
  }): Promise<{ readonly id: string; readonly url: string }>;
  /** Reports a gate on a commit. */
  ensureCheck(report: CheckReport): Promise<void>;
  /** Reads the checks of a commit by every system, ours included. */
  readChecks(repository: ForgePlace, sha: string): Promise<readonly ForgeCheck[]>;
  readRequest(repository: ForgePlace, number: number): Promise<RequestState>;
  /** Reads a file as text; null if there is none. Fails with `invalid` if it is too large. */
  readFile(file: FileAtForge): Promise<string | null>;
  readCommit(repository: ForgePlace, sha: string): Promise<CommitOrigin>;
  /** Finds the branch of a pull request; null if the number is an issue's. */
  findOffered(repository: ForgePlace, number: number): Promise<OfferedBranch | null>;
  /** Reads what happened in a repository lately; null: nothing new. */
  readEvents(repository: ForgePlace, etag: string | null): Promise<News | null>;
  /** Reads the lists of a commit's checks, each with its own etag; null: nothing new. */
  readCheckNews(
    repository: ForgePlace,
    known: { readonly sha: string; readonly etags: readonly (string | null)[] },
  ): Promise<readonly (News | null)[]>;
  /** Reads the checks of a suite of the forge, as `readCheckNews` does. */
  readSuite(repository: ForgePlace, suiteId: number): Promise<readonly NewsItem[]>;
  /** Whether an account is ours alone, as an App's is; a token's belongs to a person as well. */
  isOurs(login: string): Promise<boolean>;
  /** Whether this account may push to the repository, so that it may steer builds. */
  mayPush(repository: ForgePlace, login: string): Promise<boolean>;
  /** Reads the log of a job of the forge's own CI in pieces; null if there is none (any more). */
  readJobLog(repository: ForgePlace, jobId: number): Promise<AsyncIterable<Uint8Array> | null>;
  /**
   * Merges the request, or adds it to its base's merge queue. Fails if its head is a different
   * commit.
   */
  mergeRequest(request: {
    readonly repository: ForgePlace;
    readonly number: number;
    readonly sha: string;
    readonly queue: boolean;
  }): Promise<MergeResult>;
}

/** How this installation is signed in to GitHub. */
export interface GitHubSignIn {
  /** `settings`: settings name the credential. `stored`: it is in the data directory. */
  readonly source: "settings" | "stored" | null;
  readonly identity: ForgeIdentity | null;
  /** Why the credential does not work; null if it does, or if there is none. */
  readonly problem: { readonly message: string; readonly remedy: string | null } | null;
  /** An App whose key may have been lost on its way to us, and what to do about it. */
  readonly unfinished: { readonly since: Date; readonly remedy: string } | null;
}

/** Signs this installation in at GitHub. What it stores counts at once, in every process. */
export interface GitHubConnection {
  /** The address of GitHub's pages. */
  readonly webUrl: string;
  read(): Promise<GitHubSignIn>;
  /** Checks a credential with GitHub and stores it. Returns whose it is, and the file. */
  store(credential: GitHubCredential): Promise<{ readonly identity: ForgeIdentity; readonly path: string }>;
  /**
   * Starts creating an App, replacing any unfinished one. `origin` serves our pages, which take the
   * returned state.
   */
  beginApp(wanted: { readonly origin: string; readonly organization: string | null }): Promise<{
    readonly state: string;
    readonly expiresAt: Date;
  }>;
  /** Returns the form that makes the App on GitHub. Fails with `usage` for a foreign state. */
  appForm(state: string): Promise<{ readonly action: string; readonly manifest: string }>;
  /** Exchanges GitHub's code for the App's key, stores that and signs in with it. Works once. */
  finishApp(answer: { readonly state: string; readonly code: string }): Promise<{
    readonly name: string;
    readonly installUrl: string;
  }>;
  /** The secrets that may sign GitHub's webhooks. */
  webhookSecrets(): readonly string[];
}

/** The forges of this installation. */
export interface Forges {
  forge(name: ForgeName): Forge;
  /** The environment for git to reach a URL, with a credential if a configured forge has it. */
  gitEnvironment(url: string): Promise<Readonly<Record<string, string>>>;
  readonly github: GitHubConnection;
  /** Every credential in use, so that it can be masked. */
  secrets(): Readonly<Record<string, string>>;
}
