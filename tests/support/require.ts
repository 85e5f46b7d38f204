import { spawnSync } from "node:child_process";
import { lackingAgents } from "./real-agents.ts";

export type Requirement =
  | "bubblewrap"
  | "docker"
  | "docker-compose"
  | "postgres-server"
  | "chromium"
  | "agents"
  | "zsh"
  | "fish"
  | "terminal";

const probes: Record<Requirement, () => boolean> = {
  // Namespaces may be denied even if the program is installed, so we try it.
  bubblewrap: () =>
    spawnSync("bwrap", ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"], { stdio: "ignore" })
      .status === 0,
  docker: () => dockerLack() === null,
  "docker-compose": () => spawnSync("docker-compose", ["version"], { stdio: "ignore" }).status === 0,
  "postgres-server": () => process.env.WAVESMITH_TEST_DATABASE_URL !== undefined,
  agents: () => lackingAgents().length === 0,
  // util-linux gives a test its own terminal.
  terminal: () => spawnSync("script", ["-qec", "true", "/dev/null"], { stdio: "ignore" }).status === 0,
  zsh: () => spawnSync("zsh", ["-f", "-c", "true"]).status === 0,
  fish: () => spawnSync("fish", ["--no-config", "-c", "true"]).status === 0,
  chromium: () => spawnSync("chromium", ["--version"], { stdio: "ignore" }).status === 0,
};

/**
 * What Docker lacks was found out before the run (docker.ts), once for all test files. Empty:
 * nothing.
 */
const dockerLack = (): string | null => {
  const lack = process.env.WAVESMITH_TEST_DOCKER_LACKS ?? "nobody has looked whether Docker is there";
  return lack === "" ? null : lack;
};

const found = new Map<Requirement, boolean>();

/**
 * Whether everything named is on this machine, for `describe.runIf(requires("bubblewrap"))`. Says
 * loudly what is skipped; with WAVESMITH_REQUIRE=all (as in CI) anything missing is a failure.
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
