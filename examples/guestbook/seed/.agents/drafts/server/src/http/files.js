// The files of public/, by name. They are few and small, so they are read once and kept.
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname } from "node:path";

const types = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Adds a route for each file of `folder` (a file: URL that ends in "/"). */
export async function addFiles(router, folder) {
  for (const name of await readdir(folder)) {
    const file = await readFile(new URL(name, folder));
    const etag = `"${createHash("sha256").update(file).digest("base64url").slice(0, 16)}"`;
    const headers = { etag, "cache-control": "no-cache" };
    router.get(`/${name}`, (request) =>
      request.headers["if-none-match"] === etag
        ? { status: 304, headers }
        : { headers: { ...headers, "content-type": types[extname(name)] ?? "application/octet-stream" }, file },
    );
  }
}
