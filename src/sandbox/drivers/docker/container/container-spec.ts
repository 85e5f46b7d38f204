// The hardening profile: how the containers of sandboxes are made, and those that pack and unpack
// volumes. tests/contract/docker-driver.test.ts proves every line from the inside.
import { createHash } from "node:crypto";
import type Docker from "dockerode";
import type { ArchiveFormat, SandboxSpec } from "../../../port.ts";
import { toolsInside } from "../../../tools/place.ts";
import { containerName, type Labels, label, role } from "../names.ts";

/**
 * The guest is root with few capabilities, so that it can give each job its own user. Nothing else
 * in a sandbox is root.
 */
const guestUser = "0:0";
export const guestRights = ["CHOWN", "SETGID", "SETUID"] as const;
/** Owns a restored volume until the guest gives it to the users of jobs. */
const archiveUser = "10001:10001";
const workspace = "/workspace";
export const muxSocket = "/run/wavesmith/mux.sock";
const egressInside = "/run/wavesmith-egress";
const toolPath = `${toolsInside}/bin:/usr/local/bin:/usr/bin:/bin`;
const mebibyte = 1024 ** 2;
const openFiles = 16_384;

/** The inputs of a container; if any of them changes, the container is replaced. */
export interface Wants {
  /** The image's id, because a rebuilt image requires a new container. */
  readonly image: string;
  readonly network: SandboxSpec["network"]["mode"];
  readonly limits: SandboxSpec["limits"];
  /** The folder on the host that holds the sandbox's egress sockets. */
  readonly egress: string;
  /** The version of this hardening profile. */
  readonly profile: typeof profileVersion;
  /** The engine's runtime, if the settings name one; otherwise null. */
  readonly runtime: string | null;
  /** The volume with installed agents; null without any. */
  readonly tools: string | null;
}

export const profileVersion = 2;

/** The engine's abilities, and the settings that are the same for all sandboxes. */
export interface Making {
  readonly installationId: string;
  readonly dataDir: string;
  readonly processors: number;
  /** Whether the engine can limit open files; if not, its own limit applies. */
  readonly limitsFiles: boolean;
  readonly silenceMs: number | null;
}

export const specHash = (wants: Wants): string =>
  createHash("sha256").update(JSON.stringify(wants)).digest("hex").slice(0, 16);

type Create = Docker.ContainerCreateOptions;

/** Returns the options of a project's sandbox on this volume. */
export function sandboxContainer(spec: SandboxSpec, wants: Wants, volume: string, making: Making): Create {
  const { limits } = wants;
  const labels: Labels = {
    [label.installation]: making.installationId,
    [label.project]: spec.projectId,
    [label.tenant]: spec.tenantId,
    [label.sandbox]: spec.sandboxId,
    [label.spec]: specHash(wants),
    [label.wants]: JSON.stringify(wants),
  };
  return {
    ...common(wants.image, labels, making),
    name: containerName(spec.projectId),
    User: guestUser,
    Cmd: guestArguments(wants, making),
    StopTimeout: stopSeconds,
    HostConfig: {
      ...confined(making, limits),
      ...withRuntime(wants.runtime),
      CapAdd: [...guestRights],
      // With `allowlist` the proxy's socket is the only way out.
      NetworkMode: wants.network === "open" ? "bridge" : "none",
      Mounts: [
        { Type: "volume", Source: volume, Target: workspace, ReadOnly: false },
        {
          Type: "bind",
          Source: wants.egress,
          Target: egressInside,
          ReadOnly: true,
          BindOptions: { Propagation: "rprivate" },
        },
        ...toolsMount(wants.tools),
      ],
      Tmpfs: writableFolders(limits.memoryBytes),
      LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "2" } },
    },
  };
}

export const withRuntime = (runtime: string | null): { Runtime?: string } =>
  runtime === null ? {} : { Runtime: runtime };

const toolsMount = (volume: string | null): Docker.MountSettings[] =>
  volume === null ? [] : [{ Type: "volume", Source: volume, Target: toolsInside, ReadOnly: true }];

/** How long the guest may take to end its jobs and itself. */
export const stopSeconds = 10;

const guestArguments = ({ network }: Wants, { silenceMs }: Making): string[] => [
  ...["--root", workspace],
  ...["--socket", "/run/wavesmith/guest.sock", "--mux-socket", muxSocket],
  ...["--isolation", "users", "--contained"],
  ...["--network", network, "--egress", egressInside],
  ...["--tool-path", toolPath],
  ...(silenceMs === null ? [] : ["--silence-ms", String(silenceMs)]),
];

/** The limits of a container that packs or unpacks a volume. */
const archiveLimits = { memoryBytes: 1024 * mebibyte, processes: 64, cpus: 2 };

const guestProgram = ["node", "/opt/wavesmith/guest.mjs"];
const archiving = (verb: "pack" | "unpack", format: ArchiveFormat): string[] => [
  verb,
  ...["--root", workspace],
  ...["--format", format],
];

/**
 * Returns the options of a container that packs a volume to its standard output, or unpacks its
 * standard input into one.
 */
export function archiveContainer(
  work: { verb: "pack" | "unpack"; image: string; volume: string; format: ArchiveFormat; maxBytes: number | null },
  labels: Labels,
  making: Making,
): Create {
  const { verb, image, volume, format, maxBytes } = work;
  return {
    ...common(image, { ...labels, [label.role]: role.archive }, making),
    // Packing reads the files of all users and writes nothing.
    User: verb === "pack" ? guestUser : archiveUser,
    Entrypoint: guestProgram,
    Cmd: [...archiving(verb, format), ...(maxBytes === null ? [] : ["--max-bytes", String(maxBytes)])],
    AttachStdin: verb === "unpack",
    OpenStdin: verb === "unpack",
    StdinOnce: verb === "unpack",
    AttachStdout: true,
    AttachStderr: true,
    HostConfig: {
      ...confined(making, archiveLimits),
      ...(verb === "pack" ? { CapAdd: ["DAC_READ_SEARCH"] } : {}),
      NetworkMode: "none",
      Mounts: [{ Type: "volume", Source: volume, Target: workspace, ReadOnly: verb === "pack" }],
      Tmpfs: { "/tmp": tmpfs(64 * mebibyte) },
      // Otherwise the engine writes every byte of the archive to its log.
      LogConfig: { Type: "none", Config: {} },
    },
  };
}

const common = (image: string, labels: Labels, { dataDir }: Making): Create => ({
  Image: image,
  Hostname: "wavesmith",
  Tty: false,
  Labels: { ...labels, [label.dataDir]: dataDir },
});

function confined(
  { processors, limitsFiles }: Making,
  limits: { memoryBytes: number; processes: number; cpus: number },
): Docker.HostConfig & { CgroupnsMode: string } {
  return {
    Init: true,
    Privileged: false,
    CapDrop: ["ALL"],
    // The engine's default seccomp profile applies unless something here replaces it.
    SecurityOpt: ["no-new-privileges"],
    ReadonlyRootfs: true,
    IpcMode: "private",
    CgroupnsMode: "private",
    ShmSize: 64 * mebibyte,
    PidsLimit: limits.processes,
    Memory: limits.memoryBytes,
    MemorySwap: limits.memoryBytes, // Both together: no swap.
    NanoCpus: Math.round(Math.min(limits.cpus, processors) * 1e9),
    Ulimits: [
      { Name: "core", Soft: 0, Hard: 0 },
      ...(limitsFiles ? [{ Name: "nofile", Soft: openFiles, Hard: openFiles }] : []),
    ],
    RestartPolicy: { Name: "no" },
  };
}

/** Returns what is writable besides the volume. It counts as memory and ends with the container. */
function writableFolders(memoryBytes: number): Record<string, string> {
  const own = "uid=0,gid=0,mode=0700";
  return {
    // Builds run programs that they have put there.
    "/tmp": tmpfs(memoryBytes / 2, "exec,mode=1777"),
    "/run/wavesmith": tmpfs(mebibyte, `noexec,${own}`),
  };
}

const tmpfs = (sizeBytes: number, more = "noexec,mode=1777"): string =>
  `rw,nosuid,nodev,${more},size=${Math.floor(sizeBytes)}`;
