import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { mainRef } from "../../domain/refs/build-refs.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { FileCommit } from "../../workspace/port.ts";
import type { Ports } from "../port.ts";

// A person changes a file between builds: the change is a commit on main, and the next build starts
// from it. While a build is active, main is its own (W3), so the change is refused. The project's
// lock keeps a build from becoming active meanwhile.

interface Change extends Pick<FileCommit, "path" | "from" | "message" | "author"> {
  readonly projectId: ProjectId;
  /** The id that the file must have; null: it must not exist, undefined: any. */
  readonly expected: string | null | undefined;
}

/**
 * Commits one file to main. Returns the commit, the file's id, and whether it is new. Fails with
 * `conflict` while a build is active, or if the file is not the expected one.
 */
export async function changeFile(
  ports: Ports,
  { projectId, expected, ...change }: Change,
): Promise<{ readonly commit: string; readonly id: string; readonly isNew: boolean }> {
  const { workspace, clock } = ports;
  return ports.store.transaction("change-file", async (transaction) => {
    await transaction.lockProject(projectId);
    const build = await transaction.builds.find({ projectId, status: activeBuildStatuses });
    if (build !== null) throw beingBuilt(build.id);
    const main = await workspace.resolve(projectId, mainRef);
    if (main === null) throw withoutFiles();
    const before = await workspace.findEntry(projectId, main, change.path);
    if (expected !== undefined && (before?.id ?? null) !== expected) throw otherFile(change.path, before === null);
    const made = await workspace.commitFile(projectId, { ...change, parent: main, date: clock.now() });
    if (before?.id === made.id) return { commit: main, id: made.id, isNew: false };
    if (!(await workspace.moveRef(projectId, mainRef, made.commit, main))) throw otherFile(change.path, false);
    return { ...made, isNew: before === null };
  });
}

const beingBuilt = (buildId: string): WavesmithError =>
  new WavesmithError("conflict", `build ${buildId} has not ended, and main is its own until then`, {
    remedy: `comment on its work (POST /api/v1/builds/${buildId}/findings), or let it end first`,
  });

/** The error for a project that no build has begun yet. */
export const withoutFiles = (): WavesmithError =>
  new WavesmithError("not-found", "the project has no files yet", { remedy: "its first build makes them" });

const otherFile = (path: string, isGone: boolean): WavesmithError =>
  new WavesmithError("conflict", `${path} ${isGone ? "does not exist" : "has changed since you read it"}`, {
    remedy: "read it again, and send its ETag as If-Match",
  });
