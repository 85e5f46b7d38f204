import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type Docker from "dockerode";
import { type Pack, pack } from "tar-stream";
import { messageOf, WavesmithError } from "../../../domain/errors.ts";
import { itemAt } from "../../../domain/known.ts";
import { guestProtocolVersion } from "../../../guest/protocol.ts";
import { sandboxPrograms } from "../../guest/guest-program.ts";
import type { DriverProblem } from "../../port.ts";

const buildCommand = "wavesmith sandbox image build";

const protocolLabel = "io.wavesmith.guest-protocol";
/** Tells apart two guests of the same protocol, for people who work on the guest. */
export const guestHashLabel = "io.wavesmith.guest-hash";

/** Labels of containers that only try something and belong to no installation. */
export const trialLabels = { "io.wavesmith.installation": "trial" };

/** Returns the image that this version starts sandboxes from. */
export const imageName = (): string => `wavesmith-sandbox:${ownVersion()}`;

function ownVersion(): string {
  // In the built package it is one folder further up.
  for (const place of ["../../../../package.json", "../../../../../package.json"]) {
    try {
      return JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8")).version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  throw new WavesmithError("environment", "the package.json of wavesmith is gone", { remedy: "install it again" });
}

/** Returns why sandboxes cannot be started from the image, with a remedy; null when they can. */
export async function imageProblem(docker: Docker, image: string): Promise<DriverProblem | null> {
  try {
    const { Config } = await docker.getImage(image).inspect();
    const protocol = Config.Labels?.[protocolLabel];
    if (protocol === String(guestProtocolVersion)) return null;
    const other =
      protocol === undefined ? "does not say which protocol its guest speaks" : `has a guest of protocol ${protocol}`;
    return { what: `the image ${image} ${other}, but ${guestProtocolVersion} is needed`, remedy: buildCommand };
  } catch (error) {
    if ((error as { statusCode?: number }).statusCode !== 404) throw error;
    return { what: `the image ${image} is not on this machine`, remedy: buildCommand };
  }
}

export interface ImageRequest {
  /** The guest as one file. */
  readonly guestPath: string;
  /** The image to build on; null for the one that the Dockerfile names. */
  readonly base: string | null;
  /** A folder with certificates (`.crt`, `.pem`) that everything in the image trusts. */
  readonly certificates: string | null;
  readonly chromium: boolean;
  /** The npm registry for a base without Node; null when the base has Node. */
  readonly npmRegistry: string | null;
  /** The image's name; by default the image that this version starts. */
  readonly image?: string;
}

/** A report on the progress of a build. */
export type ImageProgress =
  | { readonly type: "step"; readonly step: number; readonly steps: number; readonly instruction: string }
  | { readonly type: "cached"; readonly step: number }
  | { readonly type: "output"; readonly text: string };

export interface BuiltImage {
  readonly image: string;
  readonly id: string;
  readonly sizeBytes: number;
  /** Whether the same image existed before. */
  readonly unchanged: boolean;
  readonly protocol: number;
  readonly versions: { readonly node: string; readonly git: string; readonly python: string };
}

/**
 * Builds the image of sandboxes with the engine's own builder. The signal ends the build. Fails
 * with `environment`, naming the step and its last lines.
 */
export async function buildImageFromRecipe(
  docker: Docker,
  request: ImageRequest,
  options: { readonly onProgress: (progress: ImageProgress) => void; readonly signal?: AbortSignal },
): Promise<BuiltImage> {
  const { image = imageName() } = request;
  const before = await idOf(docker, image);
  const programs = await readPrograms(request.guestPath);
  const stream = await docker.buildImage(await contextOf(request, programs), {
    t: image,
    rm: true,
    forcerm: true,
    buildargs: {
      ...(request.base === null ? {} : { BASE: request.base }),
      ...(request.npmRegistry === null ? {} : { NPM_REGISTRY: request.npmRegistry }),
      ...(request.chromium ? { CHROMIUM: "1" } : {}),
      VERSION: ownVersion(),
      GUEST_PROTOCOL: String(guestProtocolVersion),
      GUEST_HASH: programsHash(programs),
    },
    ...(options.signal === undefined ? {} : { abortSignal: options.signal }),
  });
  await follow(stream as Readable, options.onProgress);
  const { Id: id, Size: sizeBytes } = await docker.getImage(image).inspect();
  if (before !== null && before !== id) await removeUnused(docker, before);
  const versions = await versionsIn(docker, id);
  return { image, id, sizeBytes, unchanged: id === before, protocol: guestProtocolVersion, versions };
}

/** Reads the guest and the programs beside it, by file name. */
export async function readPrograms(guestPath: string): Promise<Map<string, Buffer>> {
  const names = Object.keys(sandboxPrograms).map((name) => `${name}.mjs`);
  const read = names.map(async (name) => [name, await readFile(join(dirname(guestPath), name))] as const);
  return new Map(await Promise.all(read));
}

/** Returns the value of `guestHashLabel` for an image with these programs. */
export function programsHash(programs: ReadonlyMap<string, Uint8Array>): string {
  const hash = createHash("sha256");
  for (const [name, code] of programs) hash.update(`${name} ${code.length}\n`).update(code);
  return hash.digest("hex").slice(0, 16);
}

async function idOf(docker: Docker, image: string): Promise<string | null> {
  try {
    return (await docker.getImage(image).inspect()).Id;
  } catch (error) {
    if ((error as { statusCode?: number }).statusCode === 404) return null;
    throw error;
  }
}

/** Removes the image that had the name before, unless it has other names or containers use it. */
async function removeUnused(docker: Docker, id: string): Promise<void> {
  try {
    const old = docker.getImage(id);
    if ((await old.inspect()).RepoTags?.length) return;
    await old.remove();
  } catch (error) {
    const { statusCode } = error as { statusCode?: number };
    if (statusCode !== 409 && statusCode !== 404) throw error;
  }
}

/** The recipe is beside the sources, or where the built package has it. */
const recipeFolder = fileURLToPath(new URL("../../../../sandbox-image", import.meta.url));

/**
 * Returns the files of the build. They are identical to the bit each time, so that the engine
 * reuses its layers.
 */
async function contextOf(request: ImageRequest, programs: ReadonlyMap<string, Buffer>): Promise<Readable> {
  const tar = pack();
  for (const name of (await readdir(recipeFolder)).sort()) {
    addFile(tar, name, await readFile(join(recipeFolder, name)), name === "Dockerfile" ? 0o644 : 0o755);
  }
  for (const [name, code] of programs) addFile(tar, name, code, 0o644);
  tar.entry({ ...plain, name: "ca/", type: "directory", mode: 0o755 });
  if (request.certificates !== null) {
    for (const { name, text } of await certificatesOf(request.certificates)) addFile(tar, `ca/${name}`, text, 0o644);
  }
  tar.finalize();
  // tar-stream's stream is not one of Node's.
  return Readable.from(tar);
}

const plain = { uid: 0, gid: 0, mtime: new Date(0) } as const;

function addFile(tar: Pack, name: string, content: Buffer | string, mode: number): void {
  tar.entry({ ...plain, name, mode }, content);
}

/**
 * Reads every certificate of the folder, named as Debian wants it. Fails with `usage` when there is
 * none.
 */
async function certificatesOf(folder: string): Promise<{ name: string; text: string }[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw wrongFolder(`the certificates in ${folder} cannot be read: ${messageOf(error)}`);
  });
  const found = [];
  for (const name of names.filter((name) => [".crt", ".pem", ".cer"].includes(extname(name))).sort()) {
    const text = await readFile(join(folder, name), "utf8");
    if (!text.includes("-----BEGIN CERTIFICATE-----"))
      throw wrongFolder(`${join(folder, name)} is not a certificate in PEM format`);
    const plainName = name.replace(/[^\w.-]/g, "_");
    found.push({ name: plainName.endsWith(".crt") ? plainName : `${plainName}.crt`, text });
  }
  if (found.length === 0) throw wrongFolder(`there is no certificate in ${folder}`);
  return found;
}

const wrongFolder = (what: string): WavesmithError =>
  new WavesmithError("usage", what, {
    remedy: "give a folder with certificates in PEM, as *.crt or *.pem: --ca FOLDER",
  });

interface EngineLine {
  readonly stream?: string;
  readonly status?: string;
  readonly id?: string;
  readonly progress?: string;
  readonly error?: string;
}

const keptLines = 20;

/** Reports the progress of the engine's build. Fails unless the engine reports success. */
async function follow(stream: Readable, onProgress: (progress: ImageProgress) => void): Promise<void> {
  let step = { number: 0, of: 0, instruction: "" };
  let last: string[] = [];
  let done = false;
  for await (const message of linesOf(stream)) {
    if (message.error !== undefined) throw buildFailed(step, message.error, last);
    for (const text of textsOf(message)) {
      const begun = /^Step (\d+)\/(\d+) : (.*)$/.exec(text);
      if (begun !== null) {
        step = { number: Number(begun[1]), of: Number(begun[2]), instruction: itemAt(begun, 3) };
        last = [];
        onProgress({ type: "step", step: step.number, steps: step.of, instruction: step.instruction });
      } else if (text === " ---> Using cache") onProgress({ type: "cached", step: step.number });
      else if (text.startsWith("Successfully built ")) done = true;
      else if (!/^ ---> |^Removing intermediate container |^Successfully tagged /.test(text)) {
        last = [...last, text].slice(-keptLines);
        onProgress({ type: "output", text });
      }
    }
  }
  if (!done) throw buildFailed(step, "the engine closed the connection before the build was done", last);
}

/** Reads lines of JSON. Unlike `readline`, it fails when the stream breaks off. */
async function* linesOf(stream: Readable): AsyncIterable<EngineLine> {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") yield JSON.parse(line);
  }
  if (rest.trim() !== "") yield JSON.parse(rest);
}

/** Returns the line's texts without empty ones; of a download only its start and end. */
function textsOf({ stream, status, id, progress }: EngineLine): string[] {
  if (stream !== undefined) return stream.split(/[\r\n]+/).filter((text) => text.trim() !== "");
  if (status === undefined || progress) return [];
  return [id === undefined ? status : `${id}: ${status}`];
}

function buildFailed(
  step: { number: number; of: number; instruction: string },
  why: string,
  last: string[],
): WavesmithError {
  const lines = last.map((text) => `\n  ${text}`).join("");
  const isBase = step.instruction.startsWith("FROM ");
  const what = `step ${step.number} of ${step.of} (${step.instruction.slice(0, 200)}) failed: ${why.trim()}${lines}`;
  return new WavesmithError("environment", `the sandbox's image could not be built: ${what}`, {
    remedy: isBase
      ? `name a base that this machine has or can fetch, a Debian or Ubuntu: ${buildCommand} --base IMAGE`
      : `read the output of the step; behind a proxy that decrypts TLS, give its certificates: ${buildCommand} --ca FOLDER`,
  });
}

/** Asks the programs in the image for their versions, in a container that is removed afterwards. */
async function versionsIn(docker: Docker, image: string): Promise<BuiltImage["versions"]> {
  const script = "node --version && git --version && python3 --version";
  const container = await docker.createContainer({
    Image: image,
    Entrypoint: ["/bin/sh", "-c", script],
    Cmd: [],
    Tty: true, // With a terminal both outputs come as one plain stream.
    Labels: trialLabels,
    HostConfig: { NetworkMode: "none", CapDrop: ["ALL"] },
  });
  try {
    await container.start();
    const { StatusCode } = await container.wait();
    const text = (await container.logs({ stdout: true, stderr: true })).toString("utf8");
    const [node, git, python] = text.split("\n").map((line) => /\d[\w.+-]*/.exec(line)?.[0]);
    if (StatusCode !== 0 || !node || !git || !python) {
      throw new WavesmithError("environment", `the image was built, but its programs do not run: ${text.trim()}`, {
        remedy: `take another base: ${buildCommand} --base IMAGE`,
      });
    }
    return { node, git, python };
  } finally {
    await container.remove({ force: true });
  }
}
