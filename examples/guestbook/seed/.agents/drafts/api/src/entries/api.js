// The HTTP API: /api/entries and /health.
import { HttpError } from "../http/router.js";
import { checkEntry, hasProblems } from "./rules.js";

/** Adds the API's routes to a router. */
export function addApi(router, store) {
  router.get("/health", () => ({ json: { status: "ok", entries: store.list().total } }));

  router.get("/api/entries", ({ query }) => ({
    json: store.list({ page: count(query, "page", 1), perPage: Math.min(100, count(query, "perPage", 10)) }),
  }));

  router.post("/api/entries", async ({ body }) => {
    const { value, problems } = checkEntry(body);
    if (hasProblems(problems)) throw new HttpError(422, "Some fields need another look.", { problems });
    const { entry, deleteKey } = await store.add(value);
    return { status: 201, headers: { location: `/api/entries/${entry.id}` }, json: { entry, deleteKey } };
  });

  router.delete("/api/entries/:id", async ({ params, headers }) => {
    const outcome = await store.remove(params.id, headers["x-delete-key"]);
    if (outcome === "absent") throw new HttpError(404, "There is no such entry.");
    if (outcome === "forbidden") throw new HttpError(403, "Only who wrote an entry can take it back.");
    return { status: 204 };
  });

  router.post("/api/entries/:id/hearts", async ({ params }) => {
    const hearts = await store.heart(params.id);
    if (hearts === null) throw new HttpError(404, "There is no such entry.");
    return { json: { hearts } };
  });
}

function count(query, name, otherwise) {
  const value = query.get(name) ?? otherwise;
  const number = Number(value);
  if (!Number.isInteger(number) || number < 1) throw new HttpError(400, `${name} has to be a number from 1.`);
  return number;
}
