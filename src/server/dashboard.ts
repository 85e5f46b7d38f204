import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { Hono } from "hono";

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
};

/**
 * The page shows what agents wrote, so nothing that is not our own file runs or loads. Styles are
 * allowed inline because the diff viewer adds them to its shadow trees.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const compress = promisify(gzip);

/**
 * Serves the dashboard's files. A path that names no file gets the page, which shows the view that
 * the path names. Files are compressed once and stay in memory.
 */
export function createDashboard(folder: string): Hono {
  const places = new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [`/${path.slice(join(folder, sep).length).split(sep).join("/")}`, path]),
  );
  const ready = new Map<string, Promise<Buffer>>();
  const compressed = (place: string): Promise<Buffer> => {
    const known = ready.get(place) ?? readFile(place).then((file) => compress(file));
    ready.set(place, known);
    return known;
  };
  const routes = new Hono();
  routes.get("/*", async ({ req }, next) => {
    const isView = isPage(req.path, req.header("accept") ?? "");
    const path = isView ? "/index.html" : req.path;
    const place = places.get(path);
    if (place === undefined) return next();
    const isZipped = /\bgzip\b/.test(req.header("accept-encoding") ?? "");
    return reply(path, isZipped ? await compressed(place) : await readFile(place), isZipped);
  });
  return routes;
}

const isPage = (path: string, accept: string): boolean =>
  accept.includes("text/html") && !/^\/(?:api|e|docs|assets)(?:\/|$)/.test(path);

function reply(path: string, body: Buffer, isZipped: boolean): Response {
  // The names of assets change with their content.
  const caching = path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
  const headers: Record<string, string> = {
    "content-type": types[extname(path)] ?? "application/octet-stream",
    "cache-control": caching,
    "content-security-policy": policy,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    vary: "accept-encoding",
    ...(isZipped ? { "content-encoding": "gzip" } : {}),
  };
  return new Response(new Uint8Array(body), { headers });
}
