import type { ProjectId } from "../../domain/ids.ts";
import { setupInputs } from "../../domain/plan/setup-inputs.ts";
import type { Ports } from "../port.ts";

/**
 * Why setup cannot run at a commit yet, such as `npm ci` before there is a lock file; null when it
 * can.
 */
export async function missingInputs(
  { ports, projectId, sha }: { readonly ports: Ports; readonly projectId: ProjectId; readonly sha: string },
  run: string,
): Promise<string | null> {
  for (const { command, anyOf } of setupInputs(run)) {
    const found = await Promise.all(
      anyOf.map((path) => ports.workspace.readBlob(projectId, sha, path, { maxBytes: Number.MAX_SAFE_INTEGER })),
    );
    if (found.every((blob) => blob === null)) return `${command} needs ${anyOf.join(" or ")}, which is not there yet`;
  }
  return null;
}
