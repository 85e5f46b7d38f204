import { createHash, randomBytes } from "node:crypto";
import { createWriteStream, existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { WavesmithError } from "../domain/errors.ts";
import type { ServedApp } from "./port.ts";

/** Enough for the history of a large project. */
const maxUploadBytes = 512 * 1024 * 1024;

const folderOf = ({ config }: ServedApp, projectId: string): string => join(config.dataDir, "uploads", projectId);

/**
 * Stores a source that was uploaded for builds of a project, until it is garbage. Returns its id.
 * Fails with `usage` for a body that is too large or no bundle.
 */
export async function storeUpload(app: ServedApp, projectId: string, body: ReadableStream | null): Promise<string> {
  if (body === null) throw new WavesmithError("usage", "the body is empty: send a git bundle");
  const folder = folderOf(app, projectId);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, `${randomBytes(8).toString("hex")}.part`);
  try {
    const digest = await writeBounded(body, file);
    const id = `src_${digest.slice(0, 24)}`;
    await app.ports.workspace.unpackUpload({ file, to: join(folder, `${id}.git`) });
    return id;
  } finally {
    await rm(file, { force: true });
  }
}

async function writeBounded(body: ReadableStream, file: string): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  async function* counted(parts: AsyncIterable<Buffer>) {
    for await (const part of parts) {
      bytes += part.length;
      if (bytes > maxUploadBytes) {
        throw new WavesmithError("usage", `the source is larger than ${maxUploadBytes / 1024 ** 2} MiB`, {
          remedy: "push it to a git server, and name that in the plan: source: { git: https://… }",
        });
      }
      hash.update(part);
      yield part;
    }
  }
  await pipeline(Readable.fromWeb(body), counted, createWriteStream(file, { flags: "wx", mode: 0o600 }));
  return hash.digest("hex");
}

/** Returns an uploaded source as a plan names one. Fails with `not-found`. */
export function uploadedSource(app: ServedApp, projectId: string, id: string): { git: string; ref: string } {
  const git = join(folderOf(app, projectId), `${id}.git`);
  if (/^src_[0-9a-f]{24}$/.test(id) && existsSync(git)) return { git, ref: "main" };
  throw new WavesmithError("not-found", `there is no uploaded source ${id} of this project`, {
    remedy: "upload it again: POST /api/v1/projects/ID/sources",
  });
}
