import { readdirSync } from "node:fs";
import { basename, isAbsolute, join, relative } from "node:path";

// Names of files and folders that hold credentials, wherever they are.
const secretNames = new Set(
  [
    ".ssh .aws .gnupg .kube .docker .azure .gcloud .password-store .terraform.d .netrc .npmrc .yarnrc.yml .pypirc",
    ".git-credentials .pgpass .my.cnf .vault-token .m2 .gem .s3cfg .boto .databricks .oci .mozilla .thunderbird .pki",
    "keyrings credentials.toml .env .claude .claude.json .codex .gemini .config",
  ].flatMap((names) => names.split(" ")),
);

// Credentials below a home, including those known by more than their last name.
const secretsBelowHome = [
  ...secretNames,
  ".cargo/credentials.toml",
  ".cargo/credentials",
  ".local/share/keyrings",
  ".local/share/opencode",
  ".gem/credentials",
  ".gradle/gradle.properties",
  "Library",
];

// Where a system keeps its own secrets, sockets and all homes.
const systemPlaces =
  "/etc /run /var /var/run /proc /sys /dev /boot /home /root /Users /tmp /opt /srv /mnt /media".split(" ");
const closedTrees = ["/etc", "/run", "/var/run", "/proc", "/sys", "/dev", "/boot"];

/** Whether `inner` is `outer` or below it. */
export function isAtOrBelow(inner: string, outer: string): boolean {
  const path = relative(outer, inner);
  return path === "" || (path !== ".." && !path.startsWith("../") && !isAbsolute(path));
}

/**
 * Returns why a folder must not be shown inside a sandbox; null when it may. `asked` is for a
 * folder that a person named: it may be in a settings folder such as ~/.config, but may not be or
 * hold one.
 */
export function whyForbidden(path: string, home: string, asked = false): string | null {
  if (path === "/") return "it is the whole machine";
  if (isAtOrBelow(home, path)) return `it holds the home folder ${home}`;
  const place = systemPlaces.find((known) => known === path) ?? closedTrees.find((tree) => isAtOrBelow(path, tree));
  if (place !== undefined) return `${place} belongs to the system`;
  const secret = secretsBelowHome.map((name) => join(home, name)).find((known) => isAtOrBelow(known, path));
  if (secret !== undefined) return `${secret} may hold credentials`;
  const named = path.split("/").find((name) => secretNames.has(name) && !(asked && name === ".config"));
  if (named !== undefined) return `${named} may hold credentials`;
  const child = namesIn(path).find((name) => secretNames.has(name));
  return child === undefined ? null : `it has ${basename(child)}, which may hold credentials`;
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    // A file, or a folder that we could not show anyway.
    return [];
  }
}
