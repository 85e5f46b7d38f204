import type { ProviderTools } from "../models.ts";
import type { Plan } from "../plan/plan.ts";

/** `none`: no hosts; `allowlist`: listed hosts, through our proxy; `open`: any host. */
const networkModes = ["none", "allowlist", "open"] as const;
export type NetworkMode = (typeof networkModes)[number];

/** The hosts that programs in a sandbox may reach. */
export interface NetworkPolicy {
  readonly mode: NetworkMode;
  /**
   * With `allowlist`: the hosts that the plan names, in addition to the usual ones. `*.example.org`
   * matches every host below example.org; `example.org:8443` allows that port instead of 80 and
   * 443.
   */
  readonly hosts: readonly string[];
}

/** Package registries and forges that every allowlist includes. */
export const usualHosts: readonly string[] = [
  "registry.npmjs.org",
  "registry.yarnpkg.com",
  "nodejs.org",
  "pypi.org",
  "files.pythonhosted.org",
  "crates.io",
  "index.crates.io",
  "static.crates.io",
  "static.rust-lang.org",
  "proxy.golang.org",
  "sum.golang.org",
  "rubygems.org",
  "index.rubygems.org",
  "repo.maven.apache.org",
  "repo1.maven.org",
  "plugins.gradle.org",
  "repo.packagist.org",
  "packagist.org",
  "hex.pm",
  "repo.hex.pm",
  "deb.debian.org",
  "security.debian.org",
  "archive.ubuntu.com",
  "security.ubuntu.com",
  "ports.ubuntu.com",
  "dl-cdn.alpinelinux.org",
  "github.com",
  "api.github.com",
  "codeload.github.com",
  "raw.githubusercontent.com",
  "objects.githubusercontent.com",
  "release-assets.githubusercontent.com",
  "gitlab.com",
  "bitbucket.org",
  "codeberg.org",
];

/** Returns the network that a plan asks for; `allowlist` by default. */
export function networkOf({ network }: Pick<Plan, "network">): NetworkPolicy {
  if (typeof network === "string") return { mode: network, hosts: [] };
  return { mode: "allowlist", hosts: [...new Set(network.allow.map((host) => host.toLowerCase()))].sort() };
}

/** Returns the provider tools a build may use; they can reach hosts that its sandbox cannot. */
export const providerToolsOf = (network: NetworkMode, { modelTools }: Pick<Plan, "modelTools">): ProviderTools =>
  network === "open" ? "all" : (modelTools ?? []);

/** Returns every host the proxy allows, the usual ones included; empty for `none` and `open`. */
export const allowedHosts = ({ mode, hosts }: NetworkPolicy): readonly string[] =>
  mode === "allowlist" ? [...new Set([...usualHosts, ...hosts])] : [];
