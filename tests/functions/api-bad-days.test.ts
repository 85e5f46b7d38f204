import { connect, type Socket } from "node:net";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { previewPlaceOf } from "../../src/domain/sandbox/sandbox.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const key = "s3cret-of-bad-days";
const script = "<script>alert(1)</script>";
const plan = { tasks: [{ id: "a", title: script, run: `echo "${script}"; echo a > a.txt` }] };

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Record<string, Schema>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}
interface Operation {
  readonly requestBody?: { readonly content: Record<string, { readonly schema: Schema }> };
}
type Document = { readonly paths: Record<string, Record<string, Operation>> };

describe("the server on a bad day", { timeout: 180_000 }, () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let build: string;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    fixture = await createBuildFixture();
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: () => undefined },
    });
    build = (await fixture.build(plan)).id;
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await server.stop(1_000);
    // A generated request may have made a project, and another started its sandbox.
    const { store, ports, config } = fixture.app;
    for (const { id } of await store.projects.list({}))
      for (const place of [id, previewPlaceOf(id)])
        await ports.driver(config.sandboxDriver).remove(place as never, { volume: true });
    await fixture.close();
  });

  const raw = (path: string, init: RequestInit = {}) =>
    fetch(`${server.origin}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${key}`, ...init.headers },
      signal: AbortSignal.timeout(30_000),
    });
  /** Opens a connection that sends this and then nothing more. */
  const open = (text: string) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(Number(new URL(server.origin).port), "127.0.0.1", () => {
        socket.write(text, () => resolve());
      });
      socket.on("error", reject);
      sockets.push(socket);
    });

  it("answers generated requests of every route, valid and invalid, without failing or hanging", async () => {
    const document = (await (await raw("/openapi.json")).json()) as Document;
    const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
    );
    expect(routes.filter(({ path }) => path.includes("/sandbox/")).length).toBeGreaterThan(3);
    const hostile = ["../x", "\u202e", "a\0b", "__proto__", "' or 1=1 --", script];
    const word = fc.oneof(
      fc.constantFrom(fixture.projectId, build, "bld_x", "1", "a", ...hostile),
      fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }),
    );
    const names = ["limit", "cursor", "after", "offset", "task", "wave", "status", "odd", "__proto__"];
    const query = fc.dictionary(fc.constantFrom(...names), word, { maxKeys: 2 });
    for (const { path, method, operation } of routes) {
      const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
      const body = fc.oneof(
        valueFor(schema, word).map((value) => JSON.stringify(value)),
        fc.json({ maxDepth: 3 }),
        word,
      );
      const request = fc.record({ words: fc.array(word, { minLength: 4, maxLength: 4 }), query, body });
      await fc.assert(
        fc.asyncProperty(request, async (made) => {
          let at = 0;
          const place = path.replace(/\{\w+\}/g, () => encodeURIComponent(made.words[at++]!));
          const search = new URLSearchParams({
            ...made.query,
            ...(place.endsWith("/events") ? { follow: "false" } : {}),
          });
          const hasBody = method !== "GET" && method !== "DELETE";
          const response = await raw(`${place}?${search}`, { method, ...(hasBody ? { body: made.body } : {}) });
          const text = await response.text();
          // 503 is an answer of ours, about something that is missing here.
          const isOurs = response.status < 500 || (response.status === 503 && text.includes('"code":'));
          expect([method, place, response.status, isOurs, text.slice(0, 500)]).toMatchObject({ 3: true });
        }),
        { numRuns: 5 },
      );
    }
    expect((await raw("/readyz")).status).toBe(200);
  });

  it("serves others beside a thousand idle connections and a hundred that never finish a body", async () => {
    await Promise.all(Array.from({ length: 900 }, () => open("")));
    const head = `POST /api/v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\nContent-Length: 1000\r\n\r\n{`;
    await Promise.all(Array.from({ length: 100 }, () => open(head)));
    expect((await raw(`/api/v1/builds/${build}`)).status).toBe(200);
    expect((await raw("/metrics")).status).toBe(200);
  });

  it("answers a body that comes a byte at a time with 408, and closes the connection", async () => {
    const hasty = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: () => undefined, bodyMs: 500 },
    });
    const slowly = ({ path, length, drop }: { path: string; length: string; drop: string }) =>
      new Promise<string>((resolve) => {
        const socket = connect(Number(new URL(hasty.origin).port), "127.0.0.1");
        sockets.push(socket);
        let answer = "";
        const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n`;
        socket.write(`${head}Content-Type: application/json\r\n${length}\r\n\r\n`);
        const drip = setInterval(() => socket.write(drop), 50);
        socket.on("data", (part) => {
          answer += part;
        });
        socket.on("error", () => undefined); // it is closed while a byte is on its way
        socket.on("close", () => {
          clearInterval(drip);
          resolve(answer);
        });
      });
    try {
      const paths = ["/api/v1/projects", "/api/v1/plans/check", `/e/${key}`, "/webhooks/ci"];
      const kinds = [
        { length: "Content-Length: 1000", drop: " " },
        { length: "Transfer-Encoding: chunked", drop: "1\r\n \r\n" },
      ];
      const requests = paths.flatMap((path) => kinds.map((kind) => ({ path, ...kind })));
      const answers = await Promise.all(requests.map(slowly));
      const statuses = answers.map((answer, index) => [requests[index]?.path, answer.split("\r\n")[0]]);
      expect(statuses).toEqual(requests.map(({ path }) => [path, "HTTP/1.1 408 Request Timeout"]));
      for (const answer of answers) expect(answer).toContain('"code":"timeout"');
    } finally {
      await hasty.stop(1_000);
    }
  });

  it("sends scripts in titles and output as data that no browser runs", async () => {
    for (const path of [`/builds/${build}`, `/builds/${build}/plan`, `/builds/${build}/tasks/a/logs`]) {
      const response = await raw(`/api/v1${path}`);
      expect([path, response.status, response.headers.get("content-type")]).toEqual([path, 200, "application/json"]);
    }
    const diff = await raw(`/api/v1/builds/${build}/diff`);
    expect(diff.headers.get("content-type")).toMatch(/^text\/x-diff/);
    const unknown = await raw(`/api/v1/builds/${encodeURIComponent(script)}`);
    expect([unknown.status, unknown.headers.get("content-type")]).toEqual([404, "application/problem+json"]);
  });
});

/** Values that a schema of the document allows, as far as its types say. */
function valueFor(schema: Schema, word: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((one) => valueFor(one, word)));
  switch (schema.type) {
    case "object": {
      const fields = Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, valueFor(inner, word)]);
      return fc.record(Object.fromEntries(fields) as Record<string, fc.Arbitrary<unknown>>, { requiredKeys: [] });
    }
    case "array":
      return fc.array(valueFor(schema.items ?? {}, word), { maxLength: 3 });
    case "integer":
    case "number":
      return fc.integer({ min: -1, max: 5 });
    case "boolean":
      return fc.boolean();
    case "string":
      return word;
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}
