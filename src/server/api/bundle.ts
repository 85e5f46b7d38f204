import { createReadStream } from "node:fs";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { z } from "@hono/zod-openapi";
import { diffSpan } from "../../api/diff-span.ts";
import { getBuild } from "./builds.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const which = z.strictObject({
  task: z.string().max(200).optional(),
  wave: z.coerce.number().int().min(1).max(1_000_000).optional(),
});

/** The result of a build, for git. */
export const bundleEndpoints = ({ app }: ApiContext): Endpoint[] => [
  endpoint("get /builds/{id}/bundle", {
    summary: "Download what a build, a task or a wave made: a git bundle with its history as the branch main",
    params: idParams,
    query: which,
    reply: z.string(),
    media: "application/x-git-bundle",
    async handle({ params, query }) {
      const { id } = await getBuild(app, params.id);
      const { projectId, to } = await diffSpan(app.ports.store, id, query);
      const folder = await mkdtemp(join(tmpdir(), "wavesmith-bundle-"));
      try {
        const path = join(folder, "result.bundle");
        await app.ports.workspace.bundleCommit(projectId, to, path);
        // The open file outlives its name, so that nothing stays when the client goes away.
        const file = await open(path);
        const body = Readable.toWeb(createReadStream("", { fd: file }));
        return new Response(body as ReadableStream, {
          headers: {
            "content-type": "application/x-git-bundle",
            "content-length": String((await file.stat()).size),
            "content-disposition": `attachment; filename="${id}.bundle"`,
          },
        });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  }),
];
