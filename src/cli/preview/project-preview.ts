import { notePreviewRequest, previewOfProject, reachPreview } from "../../coordinator/preview/reach-preview.ts";
import type { ProjectId } from "../../domain/ids.ts";
import type { App, Reach } from "../parts.ts";

/** How long a connection waits for a starting preview before it gets an answer. */
const patienceMs = 5_000;
const useMs = 10_000;

/** The way to whichever preview a project shows. */
export interface ProjectPreview {
  reach(): Promise<Reach>;
  /** Records that an open connection is used; failing to record it is harmless. */
  used(): void;
}

/** Returns the way to a project's preview, which wakes one that is asleep. */
export function projectPreview({ ports }: App, projectId: ProjectId): ProjectPreview {
  let buildId = "";
  let notedAt = Number.NEGATIVE_INFINITY;
  const note = async (): Promise<void> => {
    const row = await ports.store.previews.find({ buildId, status: "ready" });
    if (row !== null) await notePreviewRequest(ports, row);
  };
  return {
    async reach() {
      const build = await previewOfProject(ports, projectId);
      if (build === null) return { kind: "over", why: "the project shows no preview" };
      buildId = build.id;
      return reachPreview(ports, buildId, patienceMs);
    },
    used() {
      if (performance.now() - notedAt < useMs) return;
      notedAt = performance.now();
      note().catch(() => undefined);
    },
  };
}
