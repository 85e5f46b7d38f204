import { spawnSync } from "node:child_process";
import { lackingAgents } from "./real-agents.ts";

export type Requirement =
  | "bubblewrap"
  | "docker"
  | "docker-compose"
  | "postgres-server"
  | "chromium"
  | "agents"
  | "terminal";

const probes: Record<Requirement, () => boolean> = {
  // Namespaces may be denied although the program is there, so it is tried.
  bubblewrap: () =>
    spawnSync("bwrap", ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"], { stdio: "ignore" })
      .status === 0,
  docker: () => dockerLack() === null,
  "docker-compose": () => spawnSync("docker-compose", ["version"], { stdio: "ignore" }).status === 0,
  "postgres-server": () => process.env.WAVESMITH_TEST_DATABASE_URL !== undefined,
  agents: () => lackingAgents().length === 0,
  // A terminal of its own for a test, by util-linux.
  terminal: () => spawnSync("script", ["-qec", "true", "/dev/null"], { stdio: "ignore" }).status === 0,
  chromium: () => spawnSync("chromium", ["--version"], { stdio: "ignore" }).status === 0,
};

/**
 * What Docker lacks was determined before the run (docker.ts), once for all of its files. Empty:
 * nothing.
 */
const dockerLack = (): string | null => {
  const lack = process.env.WAVESMITH_TEST_DOCKER_LACKS ?? "nobody has looked whether Docker is there";
  return lack === "" ? null : lack;
};

const found = new Map<Requirement, boolean>();

/**
 * Whether everything named is on this machine: for `describe.runIf(requires("bubblewrap"))`. Says
 * loudly what is skipped; with WAVESMITH_REQUIRE=all (as in CI) a lack is a failure instead.
 */
export function requires(...what: Requirement[]): boolean {
  const lacking = what.filter((name) => {
    if (!found.has(name)) found.set(name, probes[name]());
    return !found.get(name);
  });
  if (lacking.length === 0) return true;
  const why = lacking.includes("docker")
    ? `: ${dockerLack()}`
    : lacking.includes("agents")
      ? ` (${lackingAgents().join(", ")}: install them with .ci/agents)`
      : "";
  const message = `this machine lacks ${lacking.join(", ")}${why}`;
  if (process.env.WAVESMITH_REQUIRE === "all") throw new Error(`WAVESMITH_REQUIRE=all, but ${message}`);
  console.warn(`SKIPPED: ${message}`);
  return false;
}
