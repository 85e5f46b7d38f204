import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { z } from "@hono/zod-openapi";
import { diffSpan } from "../../api/diff-span.ts";
import { changeFile, withoutFiles } from "../../coordinator/build/change-file.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { filePathFault } from "../../domain/paths/file-path.ts";
import { mainRef } from "../../domain/refs/build-refs.ts";
import type { ServedApp } from "../port.ts";
import { problem } from "../problem.ts";
import { getBuild } from "./builds.ts";
import {
  type ApiContext,
  cursorValue,
  type Endpoint,
  endpoint,
  idParams,
  page,
  pageQuery,
  uploadEndpoint,
} from "./endpoint.ts";
import { findProject } from "./projects.ts";

/** Larger files belong in the project's source; the dashboard edits text. */
const maxFileBytes = 10 * 1024 * 1024;

/** Whose files: main's, or those of a build, one of its waves or one of its tasks. */
const whichCommit = {
  build: z.string().max(100).optional(),
  task: z.string().max(200).optional(),
  wave: z.coerce.number().int().min(1).max(1_000_000).optional(),
};
const fileParams = idParams.extend({ path: z.string().min(1).max(4_096) });
const listQuery = pageQuery.extend({ ...whichCommit, path: z.string().max(4_096).default("") });
const fileQuery = z.strictObject(whichCommit);
const writeQuery = z.strictObject({
  by: z.string().trim().min(1).max(200).optional(),
  message: z.string().trim().min(1).max(10_000).optional(),
});
type TreeEntry = NonNullable<Awaited<ReturnType<ServedApp["ports"]["workspace"]["findEntry"]>>>;
type Which = z.infer<typeof fileQuery>;

const fileReply = z
  .looseObject({ path: z.string(), name: z.string(), kind: z.string(), sizeBytes: z.number().nullable() })
  .openapi("File");
const writtenReply = z
  .looseObject({ path: z.string(), commit: z.string(), tag: z.string(), sizeBytes: z.number() })
  .openapi("WrittenFile");

const tagOf = (id: string): string => `"${id}"`;

async function listFolder(api: ApiContext, projectId: ProjectId, query: z.infer<typeof listQuery>) {
  const commit = await commitOf(api, projectId, query);
  const path = query.path === "" ? "" : checkedPath(query.path);
  const entries = await api.app.ports.workspace.listFolder(projectId, commit, path);
  if (entries === null) throw nothingAt(path, "folder");
  const { after } = cursorValue(query.cursor, "number");
  const rows = entries.map((entry, index) => ({ entry, index })).slice((after ?? -1) + 1);
  const { limit } = query;
  const shown = page(rows, { limit, cursorOf: ({ index }) => index, show: ({ entry }) => entryJson(entry) });
  return { commit, path, ...shown };
}

/** The files of a project, at main or at a commit of one of its builds. */
export function fileEndpoints(api: ApiContext): Endpoint[] {
  const { app } = api;
  const { workspace } = app.ports;
  return [
    endpoint("get /projects/{id}/files", {
      summary: "List a folder of main (path; default: the top), or of a build's, wave's or task's commit",
      params: idParams,
      query: listQuery,
      reply: pageOfFolder,
      async handle({ params, query }) {
        const { id: projectId } = await findProject(app, params.id);
        return { body: await listFolder(api, projectId, query) };
      },
    }),
    endpoint("get /projects/{id}/files/{path}", {
      summary: "Read a file of main, or of a build's, wave's or task's commit",
      params: fileParams,
      query: fileQuery,
      media: "application/octet-stream",
      reply: z.string(),
      async handle({ params, query, header }) {
        const { id: projectId } = await findProject(app, params.id);
        const path = checkedPath(params.path);
        const entry = await workspace.findEntry(projectId, await commitOf(api, projectId, query), path);
        if (entry === null || entry.sizeBytes === null) throw nothingAt(path, "file", entry);
        const headers = { etag: tagOf(entry.id), "cache-control": "private, no-cache", ...asBytes };
        if (hasTag(header("if-none-match"), entry.id)) return new Response(null, { status: 304, headers });
        const body = workspace.streamBlob(projectId, entry.id);
        return new Response(body as globalThis.ReadableStream, {
          headers: { ...headers, "content-length": String(entry.sizeBytes) },
        });
      },
    }),
    uploadEndpoint("put /projects/{id}/files/{path}", "application/octet-stream", {
      summary: "Commit a file to main while no build is active; with If-Match only if it is still the one you read",
      params: fileParams,
      query: writeQuery,
      reply: writtenReply,
      async handle({ params, query, body, header, caller }) {
        const { id: projectId } = await findProject(app, params.id);
        const path = checkedPath(params.path);
        return storedFile(body, async (from, sizeBytes) => {
          const { by = caller.name, message = `Change ${path}` } = query;
          const author = { name: authorName(by), email: "person@wavesmith.invalid" };
          const expected = expectedId(header);
          const change = { projectId, path, from, author, message: `${message}\n`, expected };
          const { commit, id, isNew } = await changeFile(app.ports, change);
          const headers = { etag: tagOf(id) };
          return { status: isNew ? 201 : 200, headers, body: { path, commit, tag: tagOf(id), sizeBytes } };
        });
      },
    }),
  ];
}

const pageOfFolder = z
  .looseObject({
    commit: z.string(),
    path: z.string(),
    items: z.array(fileReply),
    nextCursor: z.string().nullable(),
  })
  .openapi("Folder");

/** Agents' files must do nothing when a browser opens them from this origin. */
const asBytes = {
  "content-type": "application/octet-stream",
  "content-security-policy": "default-src 'none'; sandbox",
  "x-content-type-options": "nosniff",
};

const entryJson = ({ path, kind, mode, id, sizeBytes }: TreeEntry) => ({
  ...{ path, name: path.slice(path.lastIndexOf("/") + 1), kind, sizeBytes },
  ...{ executable: mode === "100755", tag: tagOf(id) },
});

async function commitOf({ app }: ApiContext, projectId: ProjectId, { build, task, wave }: Which): Promise<string> {
  if (build === undefined) {
    if (task !== undefined || wave !== undefined) throw new WavesmithError("usage", "a task or wave needs its build");
    const main = await app.ports.workspace.resolve(projectId, mainRef);
    if (main === null) throw withoutFiles();
    return main;
  }
  if (task !== undefined && wave !== undefined)
    throw new WavesmithError("usage", "files are of a task or of a wave, not of both");
  const row = await getBuild(app, build);
  if (row.projectId !== projectId) throw new WavesmithError("not-found", `the project has no build ${build}`);
  return (await diffSpan(app.ports.store, row.id, { task, wave })).to;
}

function checkedPath(path: string): string {
  const fault = filePathFault(path);
  if (fault === null) return path;
  throw new WavesmithError("usage", `the path ${fault}`, { remedy: "name a file as src/app.js" });
}

function nothingAt(path: string, wanted: "file" | "folder", entry: TreeEntry | null = null): WavesmithError {
  if (entry?.kind === "folder") {
    const remedy = `list it: GET …/files?path=${encodeURIComponent(path)}`;
    return new WavesmithError("not-found", `${path} is a folder`, { remedy });
  }
  if (entry !== null) return new WavesmithError("not-found", `${path} is a nested repository`);
  return new WavesmithError("not-found", `there is no ${wanted} ${path}`);
}

const tagsIn = (text: string): string[] => text.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
const hasTag = (text: string | undefined, id: string): boolean =>
  tagsIn(text ?? "").some((tag) => tag === tagOf(id) || tag === "*");

/** The id that the headers ask for: null for no file, undefined for any. */
function expectedId(header: (name: string) => string | undefined): string | null | undefined {
  if (header("if-none-match")?.trim() === "*") return null;
  const tag = header("if-match");
  if (tag === undefined || tag.trim() === "*") return undefined;
  const id = /^"([0-9a-f]{40})"$/.exec(tag.trim())?.[1];
  if (id === undefined) throw new WavesmithError("usage", "If-Match is not an ETag of this file");
  return id;
}

/** Git gives these characters a special meaning in a name. */
const authorName = (text: string): string => text.replace(/[<>\p{Cc}]/gu, "").trim() || "a person";

/** Stores a body in a file while `use` runs; answers 413 if it is too large. */
async function storedFile<Result>(
  body: ReadableStream | null,
  use: (file: string, sizeBytes: number) => Promise<Result>,
): Promise<Result | Response> {
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-file-"));
  const file = join(folder, "content");
  let sizeBytes = 0;
  async function* bounded(parts: AsyncIterable<Uint8Array>) {
    for await (const part of parts) {
      sizeBytes += part.length;
      if (sizeBytes > maxFileBytes) return;
      yield part;
    }
  }
  try {
    await pipeline(body === null ? Readable.from([]) : Readable.fromWeb(body), bounded, createWriteStream(file));
    return sizeBytes > maxFileBytes ? tooLarge() : await use(file, sizeBytes);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const tooLarge = (): Response =>
  problem(
    413,
    "too-large",
    `the file is larger than ${maxFileBytes / 1024 ** 2} MiB`,
    "put it into the project's source instead",
  );
