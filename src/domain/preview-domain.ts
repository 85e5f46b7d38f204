import type { ProjectId } from "./ids.ts";

// PD1. Every project's preview has its own host below the domain, so that a browser keeps
// their cookies, storage and service workers apart from each other and from the dashboard.

/** Below which name previews are reached, besides their ports. */
export interface PreviewDomain {
  readonly protocol: "http" | "https";
  /** Lower case, without a port: `previews.example.com`. */
  readonly name: string;
  /** Null for the usual port of the protocol. */
  readonly port: number | null;
}

const projectPrefix = "proj_";

/** Returns the origin of a project's preview below the domain. */
export function previewOriginOf({ protocol, name, port }: PreviewDomain, projectId: ProjectId): string {
  const usual = protocol === "https" ? 443 : 80;
  const label = projectId.slice(projectPrefix.length);
  return `${protocol}://${label}.${name}${port === null || port === usual ? "" : `:${port}`}`;
}

/**
 * Returns the project that a Host header names, `unknown` for another name of the domain, and null
 * for every other host.
 */
export function previewHostProject({ name }: Pick<PreviewDomain, "name">, host: string): ProjectId | "unknown" | null {
  const given = host.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
  if (given === name) return "unknown";
  if (!given.endsWith(`.${name}`)) return null;
  const label = given.slice(0, -name.length - 1);
  return /^[a-z0-9]+$/.test(label) ? (`${projectPrefix}${label}` as ProjectId) : "unknown";
}
