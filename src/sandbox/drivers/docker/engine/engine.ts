import { existsSync } from "node:fs";
import { join } from "node:path";
import Docker from "dockerode";
import { messageOf, WavesmithError } from "../../../../domain/errors.ts";
import { type HostFacts, readHostFacts } from "../../../host/machine.ts";
import { findProgram, installCommand } from "../../../host/programs.ts";
import type { DriverProblem } from "../../../port.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The API of Engine 20.10, the oldest that we test. */
const oldestApi = [1, 41] as const;
const answerLimitMs = 20_000;

/**
 * Returns the engine at the socket of DOCKER_HOST, or where Docker puts it; connects to nothing
 * yet. Fails with `unsupported` for a remote engine, which could not see the folder of a sandbox's
 * egress.
 */
export function connectEngine(environment: Environment): Docker {
  return new Docker({
    socketPath: socketPath(environment),
    // Otherwise dockerode reads a host from process.env and prefers it to the socket.
    host: undefined,
    // A connection kept across a restart of the engine fails its first request. Our own agent would
    // not help, because dockerode serializes it with all its sockets at every request.
    headers: { Connection: "close" },
  } as Docker.DockerOptions);
}

/** Returns the path of the engine's socket. Fails with `unsupported`, see `connectEngine`. */
export function socketPath(environment: Environment): string {
  const { DOCKER_HOST: host, XDG_RUNTIME_DIR: runtimeDir, HOME: home } = environment;
  if (host === undefined || host === "" || host === "unix://") {
    const usual = "/var/run/docker.sock";
    const rootless = [
      ...(runtimeDir ? [join(runtimeDir, "docker.sock")] : []),
      ...(home ? [join(home, ".docker/run/docker.sock")] : []),
    ];
    return [usual, ...rootless].find((path) => existsSync(path)) ?? usual;
  }
  if (host.startsWith("unix://")) return host.slice("unix://".length);
  throw new WavesmithError("unsupported", `DOCKER_HOST is ${host}, and sandboxes need an engine on this machine`, {
    remedy: "unset DOCKER_HOST, or set it to a socket: unix:///var/run/docker.sock",
  });
}

/** Returns why the engine cannot be used, with a remedy; null when it answers and is new enough. */
export async function engineProblem(
  environment: Environment,
  { machine = readHostFacts(), limitMs = answerLimitMs } = {},
): Promise<DriverProblem | null> {
  let path: string;
  try {
    path = socketPath(environment);
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    return { what: error.message, remedy: error.remedy ?? "unset DOCKER_HOST" };
  }
  try {
    return versionProblem(await withLimit(connectEngine(environment).version(), limitMs), path);
  } catch (error) {
    return connectionProblem(error, path, { environment, machine });
  }
}

/** Returns what an engine of this version lacks; null when nothing. */
function versionProblem(version: Docker.DockerVersion, path: string): DriverProblem | null {
  const [major = 0, minor = 0] = version.ApiVersion.split(".").map(Number);
  if (major < oldestApi[0] || (major === oldestApi[0] && minor < oldestApi[1])) {
    return {
      what: `the Docker engine at ${path} is ${version.Version}, which is too old`,
      remedy: "install Docker Engine 20.10 or newer",
    };
  }
  if (version.Os === "linux") return null;
  return {
    what: `the Docker engine at ${path} runs ${version.Os} containers, but sandboxes need Linux ones`,
    remedy: "switch the engine to Linux containers",
  };
}

/** The remedy for an engine that may listen at another socket. */
const elsewhere = ({ DOCKER_HOST: host }: Environment): string =>
  host
    ? `or, since DOCKER_HOST=${host} says where to look, unset it or name another socket (docker context ls shows them)`
    : "or, when it listens at another socket (docker context ls shows it), DOCKER_HOST=unix:///path/to/docker.sock";

/** Explains why the engine does not answer. */
function connectionProblem(
  error: unknown,
  path: string,
  where: { environment: Environment; machine: HostFacts },
): DriverProblem {
  const { machine, environment } = where;
  const sudo = machine.isRoot ? "" : "sudo ";
  const start =
    machine.platform === "linux" ? `${sudo}systemctl start docker (or ${sudo}service docker start)` : "start Docker";
  const { code } = error as { code?: unknown };
  if ((code === "ENOENT" || code === "ENOTDIR") && machine.inContainer) {
    return {
      what: `Wavesmith runs in a container without a Docker socket at ${path}`,
      remedy: `start that container with the engine's socket: -v /var/run/docker.sock:${path}`,
    };
  }
  if (code === "ENOENT" || code === "ENOTDIR") {
    const installed = ["dockerd", "docker"].some((name) => findProgram(name, environment.PATH ?? "") !== null);
    const debian = /^ID(_LIKE)?=.*(debian|ubuntu)/m.test(machine.osRelease);
    const remedy = installed ? start : installCommand(debian ? "docker.io" : "docker", machine);
    return {
      what: `no Docker engine is running here: there is no socket ${path}`,
      remedy: `${remedy}; ${elsewhere(environment)}`,
    };
  }
  if (code === "ECONNREFUSED") {
    return {
      what: `no Docker engine listens at ${path} any more`,
      remedy: `${start}; ${elsewhere(environment)}`,
    };
  }
  if (code === "EACCES" || code === "EPERM") {
    return {
      what: `this user may not use the Docker engine at ${path}`,
      remedy: "sudo usermod -aG docker $USER, then log in again (members of that group can become root)",
    };
  }
  return { what: `the Docker engine at ${path} does not answer: ${messageOf(error)}`, remedy: `restart it: ${start}` };
}

/** Fails after the limit, because an engine may accept a connection and never answer. */
async function withLimit<T>(asked: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer for ${limitMs / 1000} s`)), limitMs);
  });
  try {
    return await Promise.race([asked, limit]);
  } finally {
    clearTimeout(timer);
  }
}
