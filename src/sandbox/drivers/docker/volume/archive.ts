// Packs and unpacks volumes, each in its own container without a network. A hostile archive meets
// nothing but a new volume, and only the packer may read the files of every job's user.
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type Docker from "dockerode";
import { messageOf, WavesmithError } from "../../../../domain/errors.ts";
import type { ArchiveFormat } from "../../../port.ts";
import { archiveContainer, type Making } from "../container/container-spec.ts";
import { StandardStreams } from "../engine/demux.ts";
import type { DockerEngine } from "../engine/engine-calls.ts";
import { having, type Labels, label, role } from "../names.ts";
import { isAliveMaker, ourselves } from "./volumes.ts";

export interface VolumeArchiveWork {
  readonly image: string;
  readonly volume: string;
  readonly format: ArchiveFormat;
  /** The most that may be unpacked; null when packing. */
  readonly maxBytes: number | null;
  /** The installation and the project. */
  readonly labels: Labels;
  readonly making: Making;
}

const endLimitMs = 60_000;
/** The exit code of a program that the kernel or the engine killed. */
const killed = 137;

/**
 * Returns the volume as an archive. An error of the stream means that it is incomplete; destroying
 * the stream ends the work.
 */
export async function packVolume(engine: DockerEngine, work: VolumeArchiveWork): Promise<Readable> {
  const archive = new PassThrough();
  const running = await begin(engine, work, "pack");
  const finish = async (): Promise<void> => {
    const problem = await pour(running, archive);
    if (problem !== null) throw failure(`the volume ${work.volume} could not be packed`, problem);
    archive.end();
  };
  finish().catch((error: unknown) =>
    archive.destroy(
      error instanceof WavesmithError ? error : failure("the volume could not be packed", messageOf(error)),
    ),
  );
  return archive;
}

/** Pipes the packed volume into the archive; returns why that is incomplete, or null. */
async function pour(running: Running, archive: PassThrough): Promise<string | null> {
  try {
    await pipeline(running.streams, archive, { end: false });
    const code = await running.exitCode();
    return code === 0 ? null : describeEnd(running.streams, code);
  } finally {
    running.remove().catch((error: unknown) => archive.destroy(error as Error));
  }
}

/**
 * Unpacks the archive into the volume. Fails with `archive`; the caller removes what was unpacked
 * so far.
 */
export async function unpackVolume(engine: DockerEngine, work: VolumeArchiveWork, archive: Readable): Promise<void> {
  const running = await begin(engine, work, "unpack");
  try {
    running.streams.resume();
    const fed = await pipeline(archive, running.streams, { end: false }).then(
      () => null,
      (error: NodeJS.ErrnoException) => error,
    );
    // A truncated archive must not be taken for a complete one.
    if (fed !== null && !isRefusal(fed))
      throw fed instanceof WavesmithError ? fed : failure("it broke off", fed.message);
    running.streams.end();
    const code = await running.exitCode();
    if (code !== 0 || fed !== null)
      throw failure("the archive could not be unpacked", describeEnd(running.streams, code));
  } finally {
    archive.destroy();
    await running.remove();
  }
}

/** Whether the program inside stopped reading; its last words say why. */
const isRefusal = ({ code }: NodeJS.ErrnoException): boolean =>
  code === "EPIPE" || code === "ECONNRESET" || code === "ERR_STREAM_PREMATURE_CLOSE";

const describeEnd = (streams: StandardStreams, code: number): string =>
  streams.complaint() ||
  (code === killed ? "it was killed: its sandbox was stopped, or its memory was used up" : `exit code ${code}`);

const failure = (what: string, why: string): WavesmithError =>
  new WavesmithError("archive", `${what}: ${why.trim()}`, { remedy: "take another snapshot" });

interface Running {
  readonly streams: StandardStreams;
  /** Resolves once the output has ended. */
  exitCode(): Promise<number>;
  remove(): Promise<void>;
}

async function begin(engine: DockerEngine, work: VolumeArchiveWork, verb: "pack" | "unpack"): Promise<Running> {
  const labels = { ...work.labels, [label.maker]: ourselves() };
  const created = await engine.call(`make a container to ${verb} ${work.volume}`, (docker, limited) =>
    docker.createContainer({ ...archiveContainer({ ...work, verb }, labels, work.making), ...limited }),
  );
  const { id } = created;
  const remove = () => removeContainer(engine, id);
  try {
    const attached = { stream: true, stdin: verb === "unpack", stdout: true, stderr: true, hijack: true };
    const socket = await engine.hijack(`${verb} ${work.volume}`, (docker, limited) =>
      docker.getContainer(id).attach({ ...attached, ...limited } as Docker.ContainerAttachOptions),
    );
    const streams = new StandardStreams(socket);
    // The program may end before it has read everything. The caller listens to the streams until
    // then; later errors show in the exit code.
    streams.on("error", () => undefined);
    await engine.call(`${verb} ${work.volume}`, (docker, limited) => docker.getContainer(id).start(limited));
    const exitCode = async () => (await waitFor(engine, id)).StatusCode;
    return { streams, exitCode, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

const waitFor = (engine: DockerEngine, id: string): Promise<{ StatusCode: number }> =>
  engine.call("wait for a container to end", (docker, limited) => docker.getContainer(id).wait(limited), {
    limitMs: endLimitMs,
  });

async function removeContainer(engine: DockerEngine, id: string): Promise<void> {
  const gone = () => undefined;
  await engine.call(
    "remove a container",
    (docker, limited) => docker.getContainer(id).remove({ force: true, ...limited }),
    { on: { 404: gone, 409: gone }, limitMs: endLimitMs },
  );
}

/** Removes the archive containers of dead processes; with `all`, those of living ones too. */
export async function removeArchiveContainers(engine: DockerEngine, labels: Labels, all: boolean): Promise<void> {
  const filters = JSON.stringify(having({ ...labels, [label.role]: role.archive }));
  const found = await engine.call("list containers", (docker, limited) =>
    docker.listContainers({ all: true, filters, ...limited }),
  );
  for (const { Id, Labels } of found) {
    if (all || !isAliveMaker(Labels[label.maker])) await removeContainer(engine, Id);
  }
}
