import type { PreviewRow, ProjectRow } from "../../store/port.ts";

// PA1. The address of a preview is given once it has answered, and no longer when it is over: the
// same in the API, in `status` and in the pull request. One that sleeps keeps it, because the next
// request starts it.

interface ShownPreview {
  readonly status: PreviewRow["status"];
  readonly project: Pick<ProjectRow, "previewOrigin" | "previewPort">;
  /** The path that has answered. */
  readonly path: string;
}

/** The addresses of a preview, as far as it has them now (PA1). */
export function previewAddress({ status, project: { previewOrigin, previewPort }, path }: ShownPreview): {
  /** On its own host. */
  readonly ownUrl: string | null;
  /** On this machine. */
  readonly localUrl: string | null;
} {
  const isShown = status === "ready" || status === "asleep";
  return {
    ownUrl: isShown && previewOrigin !== null ? `${previewOrigin}${path}` : null,
    localUrl: isShown && previewPort !== null ? `http://127.0.0.1:${previewPort}${path}` : null,
  };
}
