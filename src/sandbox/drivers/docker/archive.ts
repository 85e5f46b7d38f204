// Packing and unpacking volumes. A volume is packed in its sandbox where that runs, else in a container of its own without
// a network; it is always unpacked in such a one, so that an archive that means harm meets nothing but a new volume.
import type { Socket } from "node:net";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type Docker from "dockerode";
import { messageOf, WavesmithError } from "../../../domain/errors.ts";
import type { ArchiveFormat } from "../../port.ts";
import { archiveContainer, type Making, packingInside } from "./container-spec.ts";
import { StandardStreams } from "./demux.ts";
import type { Engine } from "./engine-calls.ts";
import { having, type Labels, label, role } from "./names.ts";
import { isAliveMaker, ourselves } from "./volumes.ts";

export interface ArchiveWork {
  readonly image: string;
  readonly volume: string;
  readonly format: ArchiveFormat;
  /** How much may be unpacked; null where a volume is packed. */
  readonly maxBytes: number | null;
  /** Installation and project. */
  readonly labels: Labels;
  readonly making: Making;
}

const endLimitMs = 60_000;
/** What a program that the kernel or the engine ended is said to have exited with. */
const killed = 137;

/**
 * The volume as an archive: packed in the running container `inside`, where it is mounted, which spares starting one, or
 * in one of its own. An error of the stream means that it is not whole; a stream that is destroyed ends the work.
 */
export async function packVolume(engine: Engine, work: ArchiveWork, inside: string | null): Promise<Readable> {
  const archive = new PassThrough();
  const entered = inside === null ? null : await enter(engine, inside, work);
  const running = entered ?? (await begin(engine, work, "pack"));
  const finish = async (): Promise<void> => {
    const problem = await pour(running, archive);
    // A sandbox that has no room for the programs, or was about to end, has packed nothing yet.
    const isToRepeat = problem !== null && running === entered && !entered.streams.readableDidRead;
    const left = isToRepeat ? await pour(await begin(engine, work, "pack"), archive) : problem;
    if (left !== null) throw failure(`the volume ${work.volume} could not be packed`, left);
    archive.end();
  };
  finish().catch((error: unknown) =>
    archive.destroy(
      error instanceof WavesmithError ? error : failure("the volume could not be packed", messageOf(error)),
    ),
  );
  return archive;
}

/** Puts what it packs into the archive; why that is not whole, or null. */
async function pour(running: Running, archive: PassThrough): Promise<string | null> {
  try {
    await pipeline(running.streams, archive, { end: false });
    const code = await running.exitCode();
    return code === 0 ? null : said(running.streams, code);
  } finally {
    running.remove().catch((error: unknown) => archive.destroy(error as Error));
  }
}

/** Unpacks the archive into the volume. Fails with `archive`, leaving what it has made so far to the caller. */
export async function unpackVolume(engine: Engine, work: ArchiveWork, archive: Readable): Promise<void> {
  const running = await begin(engine, work, "unpack");
  try {
    running.streams.resume();
    const fed = await pipeline(archive, running.streams, { end: false }).then(
      () => null,
      (error: NodeJS.ErrnoException) => error,
    );
    // What was not given to the end must not be taken for an archive that happens to end there.
    if (fed !== null && !isRefusal(fed))
      throw fed instanceof WavesmithError ? fed : failure("it broke off", fed.message);
    running.streams.end();
    const code = await running.exitCode();
    if (code !== 0 || fed !== null) throw failure("the archive could not be unpacked", said(running.streams, code));
  } finally {
    archive.destroy();
    await running.remove();
  }
}

/** The program inside stopped reading, and its last words say why. */
const isRefusal = ({ code }: NodeJS.ErrnoException): boolean =>
  code === "EPIPE" || code === "ECONNRESET" || code === "ERR_STREAM_PREMATURE_CLOSE";

const said = (streams: StandardStreams, code: number): string =>
  streams.complaint() ||
  (code === killed ? "it was killed, as when its sandbox is stopped or its memory is used up" : `exit code ${code}`);

const failure = (what: string, why: string): WavesmithError =>
  new WavesmithError("archive", `${what}: ${why.trim()}`, { remedy: "take another snapshot" });

interface Running {
  readonly streams: StandardStreams;
  /** Once its output has ended. */
  exitCode(): Promise<number>;
  remove(): Promise<void>;
}

/** Null when no program can be started in the container. */
async function enter(engine: Engine, containerId: string, { volume, format }: ArchiveWork): Promise<Running | null> {
  const what = `pack ${volume}`;
  const on = { 404: () => null, 409: () => null, 500: () => null };
  const attached = { AttachStdin: true, AttachStdout: true, AttachStderr: true };
  const exec = await engine.call(
    what,
    (docker, limited) => docker.getContainer(containerId).exec({ Cmd: packingInside(format), ...attached, ...limited }),
    { on },
  );
  if (exec === null) return null;
  const start = { hijack: true, stdin: true };
  const socket = await engine.call(
    what,
    (_, limited) => exec.start({ ...start, ...limited } as Parameters<typeof exec.start>[0]),
    { on },
  );
  if (socket === null) return null;
  const streams = new StandardStreams(socket as unknown as Socket);
  streams.on("error", () => undefined); // As below.
  const look = () =>
    engine.call<{ readonly ExitCode: number | null }, { readonly ExitCode: number }>(
      what,
      (_, limited) => exec.inspect(limited),
      { on: { 404: () => ({ ExitCode: killed }) } },
    );
  return {
    streams,
    exitCode: async () => (await look()).ExitCode ?? killed,
    remove: async () => void streams.destroy(),
  };
}

async function begin(engine: Engine, work: ArchiveWork, verb: "pack" | "unpack"): Promise<Running> {
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
    // The program may end before it has read everything. Whoever uses the streams listens meanwhile; what comes later, such
    // as that its input cannot be ended any more, is told by its exit code.
    streams.on("error", () => undefined);
    await engine.call(`${verb} ${work.volume}`, (docker, limited) => docker.getContainer(id).start(limited));
    const exitCode = async () => (await waitFor(engine, id)).StatusCode;
    return { streams, exitCode, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

const waitFor = (engine: Engine, id: string): Promise<{ StatusCode: number }> =>
  engine.call("wait for a container to end", (docker, limited) => docker.getContainer(id).wait(limited), {
    limitMs: endLimitMs,
  });

async function removeContainer(engine: Engine, id: string): Promise<void> {
  const gone = () => undefined;
  await engine.call(
    "remove a container",
    (docker, limited) => docker.getContainer(id).remove({ force: true, ...limited }),
    { on: { 404: gone, 409: gone }, limitMs: endLimitMs },
  );
}

/** Removes the containers in which volumes were packed by processes that are dead now; with `all`, by living ones, too. */
export async function removeArchiveContainers(engine: Engine, labels: Labels, all: boolean): Promise<void> {
  const filters = JSON.stringify(having({ ...labels, [label.role]: role.archive }));
  const found = await engine.call("list containers", (docker, limited) =>
    docker.listContainers({ all: true, filters, ...limited }),
  );
  for (const { Id, Labels } of found) {
    if (all || !isAliveMaker(Labels[label.maker])) await removeContainer(engine, Id);
  }
}
