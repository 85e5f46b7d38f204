import type { ListedBuild } from "../../api/build-list.ts";
import type { RecordedEvent } from "../../api/event-json.ts";
import type { LogChunk, LoggedJob } from "../../api/job-output.ts";
import type { sumJson } from "../../api/spending.ts";
import type { MessageWay } from "../../coordinator/attempt/messages.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import type { PlanEdit } from "../../coordinator/plan/edited-tasks.ts";
import type { OtherAgent } from "../../coordinator/plan/other-agent.ts";
import type { GivenComment } from "../../coordinator/wave/comments.ts";
import type { BuildStatus } from "../../domain/status.ts";
import type { OwnRepository } from "../parts/repository.ts";
import type { ChangedFile } from "../parts.ts";

// The operations that commands need wherever the builds are: in a data directory (`directory.ts`)
// or on a server (`server.ts`). Both fail with the same errors, so that commands print the same.

/** A build as it is now, with related facts. */
export interface SeenBuild {
  readonly view: BuildView;
  /** It has not ended, and no live process drives it. */
  readonly interrupted: boolean;
  /** A `serve` shows its preview. */
  readonly isServed: boolean;
  /** The path of the project's repository, on the machine where the builds are. */
  readonly repository: string;
  /** The same path if git can fetch from it here; null for a server. */
  readonly authority: string | null;
  /** The file of the plan that waits for approval; null if there is none. */
  readonly planFile: string | null;
}

/** Watches one build. */
export interface BuildWatch {
  /** Returns the events since the last call, and whether anything else has changed. */
  next(): Promise<{ readonly events: readonly RecordedEvent[]; readonly isChanged: boolean }>;
  read(): Promise<BuildView>;
  close(): void;
}

export interface BuildList {
  /** Newest first. */
  readonly builds: readonly ListedBuild[];
  readonly more: boolean;
  readonly spent: ReturnType<typeof sumJson>;
}

/** A task or a wave of a build; neither for the whole build. */
export interface DiffOf {
  readonly task?: string | undefined;
  readonly wave?: number | undefined;
}

export interface Changes {
  readonly projectId: string;
  readonly from: string;
  readonly to: string;
  readonly files: readonly ChangedFile[];
}

export type DrivenBuild = Pick<BuildView["build"], "projectId">;

/** The subject of a person's decision, so that a late decision changes nothing. */
export interface DecisionOf {
  readonly waveNumber: number;
  readonly sha: string | null;
}

/** Looks at builds. */
export interface Builds {
  /** Where the builds are, for messages. */
  readonly place: string;
  /** Returns at most six ids that begin like this, or the one that is exactly this. */
  idsLike(start: string): Promise<readonly string[]>;
  /** Returns the id of the latest build, of a project if one is named; null if there is none. */
  latest(project: string | undefined): Promise<string | null>;
  /** Lists the latest builds, of a project if one is named. */
  list(project: string | undefined, limit: number): Promise<BuildList>;
  see(buildId: string): Promise<SeenBuild>;
  /** Begins with the first event, or with the next one. */
  watch(buildId: string, from: "first" | "now"): Promise<BuildWatch>;
  /** Whether a live process drives the builds of a build's project. */
  isDriven(view: BuildView): Promise<boolean>;
  status(buildId: string): Promise<BuildStatus>;
  jobs(buildId: string): Promise<readonly LoggedJob[]>;
  /** Returns parts of a job's output that begin after an offset, by offset; empty at its end. */
  output(buildId: string, jobKey: string, after: number): Promise<readonly LogChunk[]>;
  changes(buildId: string, of: DiffOf): Promise<Changes>;
  diff(buildId: string, of: DiffOf): Promise<string>;
  /** Returns where git can fetch a build's result from; a server's is put into `repository`. */
  fetchResult(view: BuildView, repository: OwnRepository): Promise<string>;
}

/** Looks at builds and steers them. */
export interface SteeredBuilds extends Builds, SteeringVerbs {
  /** Fails with `environment` if a sandbox driver does not work where the builds are. */
  requireDriver(name: string): Promise<void>;
  /** Makes sure that some process drives the builds of this project until the command ends. */
  drive(build: DrivenBuild): Promise<void>;
  /** Returns the build of the same project that a queued build waits for; null if there is none. */
  ahead(buildId: string): Promise<string | null>;
}

/** Whether a person answers the questions of a build's agents from now on. */
interface Asking {
  readonly interactive: boolean;
}

/** The verbs by which a person steers a build. */
export interface SteeringVerbs {
  /** Returns the last commit that was pushed to the wave's branch; null if none was. */
  approve(buildId: string, decision: { by: string; about?: DecisionOf }): Promise<string | null>;
  reject(buildId: string, decision: { by: string; about?: DecisionOf; reason: string }): Promise<void>;
  answer(
    buildId: string,
    given: { number: number | null; answer: "allow" | "deny"; by: string },
  ): Promise<{ id: number; text: string; answer: string | null }>;
  /** Returns false if the build has ended already. */
  cancel(buildId: string, reason: string): Promise<boolean>;
  retry(buildId: string, how: OtherAgent & Asking & { unchanged?: boolean }): Promise<void>;
  /** Continues a build that waits for no decision, or is at work; returns false for any other. */
  resume(buildId: string, how: Asking): Promise<boolean>;
  /** Adds a person's finding for the fixer or for a task's next attempt. */
  comment(buildId: string, comment: GivenComment): Promise<{ id: number; state: string }>;
  /** Says something to a task's agent. */
  tell(
    buildId: string,
    task: string,
    said: { text: string; by: string; urgent: boolean },
  ): Promise<{ id: number; way: MessageWay }>;
  /**
   * Starts the preview of a finished or waiting build, unless it is shown. Fails with `conflict` if
   * there is nothing to show.
   */
  startPreview(buildId: string): Promise<void>;
  rollback(buildId: string, wave: number): Promise<void>;
  undoRollback(buildId: string): Promise<void>;
  /** Continues a build with the plan in a file that `readPlan` found no faults in. */
  editPlan(buildId: string, file: string, how: Asking & { by: string }): Promise<PlanEdit>;
}
