import { activeBuildStatuses, sandboxBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, Tables } from "../port.ts";

/** Finds the build that holds the project: no other build of it may start. */
export const activeBuildOf = ({ builds }: Pick<Tables, "builds">, projectId: string): Promise<BuildRow | null> =>
  builds.find({ projectId, status: activeBuildStatuses });

/** Finds the build that uses the project's sandbox now. */
export const sandboxBuildOf = ({ builds }: Pick<Tables, "builds">, projectId: string): Promise<BuildRow | null> =>
  builds.find({ projectId, status: sandboxBuildStatuses });
