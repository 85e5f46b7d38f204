import type { ProviderTools } from "./models.ts";
import type { Plan } from "./plan.ts";

/**
 * `none`: nothing; `allowlist`: listed hosts, through our proxy; `open`: everything the machine
 * reaches.
 */
const networkModes = ["none", "allowlist", "open"] as const;
export type NetworkMode = (typeof networkModes)[number];

/** What the programs in a sandbox may reach. */
export interface NetworkPolicy {
  readonly mode: NetworkMode;
  /**
   * With `allowlist`: the hosts that the plan names, which may be reached besides the usual ones.
   * `*.example.org` stands for each host below example.org, `example.org:8443` for that port
   * instead of 80 and 443.
   */
  readonly hosts: readonly string[];
}

/** The package registries and forges that an allowlist holds without being told. */
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

/** The network a plan asks for; `allowlist` when it says nothing. */
export function networkOf({ network }: Pick<Plan, "network">): NetworkPolicy {
  if (typeof network === "string") return { mode: network, hosts: [] };
  return { mode: "allowlist", hosts: [...new Set(network.allow.map((host) => host.toLowerCase()))].sort() };
}

/**
 * What the providers of a build's models may do by themselves: they reach what its sandbox does
 * not.
 */
export const providerToolsOf = (network: NetworkMode, { modelTools }: Pick<Plan, "modelTools">): ProviderTools =>
  network === "open" ? "all" : (modelTools ?? []);

/**
 * Every host that may be reached through the proxy, the usual ones included; none with `none` and
 * `open`.
 */
export const allowedHosts = ({ mode, hosts }: NetworkPolicy): readonly string[] =>
  mode === "allowlist" ? [...new Set([...usualHosts, ...hosts])] : [];
