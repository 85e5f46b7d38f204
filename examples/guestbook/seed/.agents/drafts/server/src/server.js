// The program: store, pages, files and API behind one HTTP server.
import { createServer } from "node:http";
import { argv, env } from "node:process";
import { pathToFileURL } from "node:url";
import { readConfig } from "./config.js";
import { openLog } from "./db/log.js";
import { createStore } from "./db/store.js";
import { addApi } from "./entries/api.js";
import { checkEntry, hasProblems } from "./entries/rules.js";
import { addFiles } from "./http/files.js";
import { createRouter } from "./http/router.js";
import { homePage } from "./pages/home.js";

const safety = {
  "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'",
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
};

/** Starts the server; port 0 takes a free one. close() ends requests under way, then the store. */
export async function startServer({ host, port, dataFile }) {
  const store = await createStore(await openLog(dataFile));
  const router = createRouter();
  addPages(router, store);
  addApi(router, store);
  await addFiles(router, new URL("../public/", import.meta.url));

  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(safety)) response.setHeader(name, value);
    router.handle(request, response);
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, host, resolve));

  return {
    url: `http://${host}:${server.address().port}`,
    async close() {
      server.closeIdleConnections();
      await new Promise((resolve) => server.close(resolve));
      await store.close();
    },
  };
}

function addPages(router, store) {
  const perPage = 8;
  router.get("/", ({ query }) => {
    const page = Math.trunc(Number(query.get("page"))) || 1;
    return { html: homePage({ book: store.list({ page, perPage }) }) };
  });
  router.post("/", async ({ body }) => {
    const { value, problems } = checkEntry(body);
    if (hasProblems(problems)) {
      return { status: 422, html: homePage({ book: store.list({ perPage }), values: value, problems }) };
    }
    const { entry } = await store.add(value);
    return { status: 303, headers: { location: `/#entry-${entry.id}` } };
  });
}

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) {
  const server = await startServer(readConfig(env));
  console.log(`The guestbook is open at ${server.url}`);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => server.close());
}
