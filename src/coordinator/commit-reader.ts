import type { ProjectId } from "../domain/ids.ts";
import type { CommitReader } from "../gates/port.ts";
import type { Ports } from "./port.ts";

/** Creates a reader of one commit in the authority. */
export function commitReader(ports: Pick<Ports, "workspace">, projectId: ProjectId, sha: string): CommitReader {
  return {
    list: () => ports.workspace.listFiles(projectId, sha),
    read: (path: string) => ports.workspace.readBlob(projectId, sha, path, { maxBytes: 4 * 1024 * 1024 }),
  };
}
