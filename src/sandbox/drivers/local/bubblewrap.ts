import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { NetworkMode } from "../../../domain/sandbox/network.ts";
import type { HostUser } from "../../host/users.ts";
import type { ShownFolder } from "./tool-roots.ts";
import { systemFolders } from "./tool-roots.ts";

export interface OuterCommand {
  readonly program: string;
  readonly args: readonly string[];
}

export interface OuterSandbox {
  readonly bwrap: string;
  readonly shown: readonly ShownFolder[];
  readonly writable: readonly ShownFolder[];
  /** Anything but `open` leaves only the sockets in mounted folders. */
  readonly network: NetworkMode;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly command: readonly string[];
}

/** The only user inside; it owns the files of the host's user. */
const inside = { uid: 1000, gid: 1000, name: "wavesmith", home: "/home/wavesmith" } as const;

/**
 * The parts of /etc that programs need to find names, certificates and libraries; nothing that
 * holds a key or a password.
 */
const etcNames = (
  "alternatives ssl/certs ssl/openssl.cnf ssl/cert.pem pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf pki/ca-trust " +
  "ca-certificates ca-certificates.conf crypto-policies ld.so.cache ld.so.conf ld.so.conf.d ld-musl-x86_64.path " +
  "ld-musl-aarch64.path localtime timezone resolv.conf host.conf gai.conf protocols services mime.types os-release " +
  "debian_version lsb-release terminfo inputrc fonts java-11-openjdk java-17-openjdk java-21-openjdk perl python3 " +
  "python3.11 python3.12 python3.13"
).split(" ");
const etcFile: Record<string, () => string> = {
  passwd: () =>
    `root:x:0:0:root:/root:/bin/sh\n${inside.name}:x:${inside.uid}:${inside.gid}::${inside.home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n`,
  group: () => `root:x:0:\n${inside.name}:x:${inside.gid}:\nnogroup:x:65534:\n`,
  hosts: () =>
    `127.0.0.1 localhost wavesmith\n::1 localhost\n${existsSync("/etc/hosts") ? readFileSync("/etc/hosts", "utf8") : ""}`,
  "nsswitch.conf": () => "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
};

/** Writes the made-up files of /etc and returns the mounts for /etc. */
export function showEtc(folder: string): ShownFolder[] {
  mkdirSync(folder, { recursive: true });
  // Regardless of our umask, because the reader may be another user.
  chmodSync(folder, 0o755);
  const shown = etcNames
    .filter((name) => existsSync(join("/etc", name)))
    .map((name) => ({ source: realpathSync(join("/etc", name)), target: join("/etc", name) }));
  for (const [name, text] of Object.entries(etcFile)) {
    writeFileSync(join(folder, name), text());
    chmodSync(join(folder, name), 0o644);
    shown.push({ source: join(folder, name), target: join("/etc", name) });
  }
  return shown;
}

/**
 * Returns the command that starts the outer sandbox. It allows further namespaces, because every
 * job gets its own, and it outlives its parent. Start it with an empty environment, because bwrap's
 * own is readable inside.
 */
export function outerCommand(sandbox: OuterSandbox): OuterCommand {
  const args = ["--unshare-user", "--uid", String(inside.uid), "--gid", String(inside.gid)];
  args.push("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "wavesmith");
  if (sandbox.network !== "open") args.push("--unshare-net");
  args.push("--new-session", "--clearenv", "--proc", "/proc", "--dev", "/dev");
  for (const folder of ["/tmp", "/var/tmp"]) args.push("--perms", "1777", "--tmpfs", folder);
  args.push("--dir", "/run", "--dir", inside.home, "--symlink", "../run", "/var/run");
  args.push(...systemFolders.flatMap(showSystemFolder));
  for (const { source, target } of sandbox.shown) args.push("--ro-bind", source, target);
  for (const { source, target } of sandbox.writable) args.push("--bind", source, target);
  const env = { HOME: inside.home, LANG: "C.UTF-8", TMPDIR: "/tmp", ...sandbox.env };
  for (const [name, value] of Object.entries(env)) args.push("--setenv", name, value);
  return { program: sandbox.bwrap, args: [...args, "--chdir", sandbox.cwd, "--", ...sandbox.command] };
}

function showSystemFolder(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return lstatSync(folder).isSymbolicLink()
    ? ["--symlink", readlinkSync(folder), folder]
    : ["--ro-bind", folder, folder];
}

// When root runs bwrap, parts of /proc are covered, and the kernel then refuses jobs a fresh /proc.
// So the sandbox runs as an ordinary user, who may lack access to the folders above a source (a
// home of mode 0700). Root therefore first mounts such sources in a staging folder, in a mount
// namespace that ends with the sandbox.
const staging = "/run/wavesmith-staging";
const stagingScript = `set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
stage=$1 uid=$2 gid=$3
shift 3
mount -t tmpfs -o mode=0755,nosuid,nodev wavesmith "$stage"
index=0
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$stage/$index"; else : > "$stage/$index"; fi
  mount --rbind "$1" "$stage/$index"
  index=$((index + 1))
  shift
done
shift
exec env -i setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"
`;

/** Returns the command for root that starts the same sandbox as `user`. */
export function outerCommandFor(user: HostUser, sandbox: OuterSandbox): OuterCommand {
  mkdirSync(staging, { recursive: true, mode: 0o755 });
  const sources: string[] = [];
  const stage = (one: ShownFolder): ShownFolder => {
    if (isOpenToAll(one.source)) return one;
    return { source: `${staging}/${sources.push(one.source) - 1}`, target: one.target };
  };
  const staged = { ...sandbox, shown: sandbox.shown.map(stage), writable: sandbox.writable.map(stage) };
  const { program, args } = outerCommand(staged);
  const script = ["sh", "-c", stagingScript, "sh", staging, String(user.uid), String(user.gid), ...sources, "--"];
  return { program: "unshare", args: ["--mount", "--propagation", "private", "--", ...script, program, ...args] };
}

/** Whether every user may pass every folder above the path. */
function isOpenToAll(path: string): boolean {
  const above = dirname(path);
  if (above === path) return true;
  return (statSync(above).mode & 0o001) !== 0 && isOpenToAll(above);
}
