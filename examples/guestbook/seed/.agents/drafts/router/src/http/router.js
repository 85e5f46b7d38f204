// A small router for node:http. Handlers get { params, query, headers, body } and return
// { status, headers, json } or { status, headers, html }. What goes wrong is answered as application/problem+json.

const bodyLimit = 64 * 1024;

/** Thrown by a handler to answer with an error. `extra` goes into the answer, such as the problems of a form. */
export class HttpError extends Error {
  constructor(status, message, extra = {}) {
    super(message);
    this.status = status;
    this.extra = extra;
  }
}

/** Routes are tried in the order they were added; ":name" in a path is a parameter. */
export function createRouter() {
  const routes = [];
  const add = (method) => (path, handler) => routes.push({ method, parts: path.split("/"), handler });

  async function handle(request, response) {
    const [pathname, search] = request.url.split("?", 2);
    try {
      const { handler, params } = find(routes, request.method, pathname);
      const body = request.method === "POST" ? await readBody(request) : undefined;
      const answer = await handler({ params, query: new URLSearchParams(search), headers: request.headers, body });
      send(request, response, answer);
    } catch (error) {
      send(request, response, problem(error));
    }
  }

  return { get: add("GET"), post: add("POST"), delete: add("DELETE"), handle };
}

function find(routes, method, pathname) {
  const wanted = method === "HEAD" ? "GET" : method;
  const here = routes.flatMap((route) => {
    const params = match(route.parts, pathname.split("/"));
    return params ? [{ ...route, params }] : [];
  });
  const found = here.find((route) => route.method === wanted);
  if (found) return found;
  if (here.length === 0) throw new HttpError(404, `There is nothing at ${pathname}.`);
  const allow = [...new Set(here.map((route) => route.method))].join(", ");
  throw Object.assign(new HttpError(405, `${pathname} answers to ${allow}.`), { headers: { allow } });
}

function match(parts, actual) {
  if (parts.length !== actual.length) return null;
  const params = {};
  for (const [index, part] of parts.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = decode(actual[index]);
    else if (part !== actual[index]) return null;
  }
  return params;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new HttpError(400, "The address is not well formed.");
  }
}

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= bodyLimit) chunks.push(chunk);
    else if (size > 16 * bodyLimit) break; // whoever sends a little too much gets to read the answer, a flood is cut off
  }
  if (size > bodyLimit) throw new HttpError(413, "That is too much at once.");
  const text = Buffer.concat(chunks).toString("utf8");
  const type = request.headers["content-type"] ?? "";
  if (type.startsWith("application/x-www-form-urlencoded")) return Object.fromEntries(new URLSearchParams(text));
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new HttpError(400, "The body is not valid JSON.");
  }
}

function problem(error) {
  const status = error instanceof HttpError ? error.status : 500;
  if (status === 500) console.error(error);
  return {
    status,
    headers: { "content-type": "application/problem+json", ...error.headers },
    json: { status, title: status === 500 ? "Something went wrong on our side." : error.message, ...error.extra },
  };
}

function send(request, response, { status = 200, headers = {}, json, html, file }) {
  const body = json !== undefined ? `${JSON.stringify(json)}\n` : (html ?? file ?? "");
  const type = json !== undefined ? "application/json" : "text/html; charset=utf-8";
  response.writeHead(status, {
    ...(body === "" ? {} : { "content-type": type }),
    "content-length": Buffer.byteLength(body),
    ...headers,
  });
  response.end(request.method === "HEAD" ? undefined : body);
}
