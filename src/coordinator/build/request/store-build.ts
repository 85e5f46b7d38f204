import type { BuildId } from "../../../domain/ids.ts";
import type { Ports } from "../../port.ts";
import type { BuildRequest } from "./build-request.ts";
import { insertBuild } from "./insert-build.ts";

/**
 * Stores a build and its tasks, queued behind other builds of its project. A request seen before
 * stores nothing.
 */
export const storeBuild = (ports: Ports, request: BuildRequest): Promise<BuildId> =>
  ports.store.transaction("store-build", (transaction) => insertBuild(transaction, ports, request));
