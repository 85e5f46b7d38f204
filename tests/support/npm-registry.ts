import { spawnSync } from "node:child_process";

/** The registry that npm uses on this machine; null if it cannot be reached. */
export function npmRegistry(): string | null {
  const asked = spawnSync("npm", ["config", "get", "registry"], { encoding: "utf8" });
  if (asked.status !== 0) return null;
  const registry = asked.stdout.trim();
  return spawnSync("npm", ["ping", "--registry", registry, "--fetch-retries=0"]).status === 0 ? registry : null;
}
