import { connect, type Socket } from "node:net";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { createKey } from "../../src/api/keys.ts";
import { previewPlaceOf } from "../../src/domain/sandbox/sandbox.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const key = "s3cret-of-bad-days";
const script = "<script>alert(1)</script>";
const secret = "the-word-of-the-owner";
const plan = {
  description: secret,
  tasks: [{ id: "a", title: script, run: `echo "${script} ${secret}"; echo a > a.txt` }],
};

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
  const warnings: string[] = [];

  beforeEach(async () => {
    fixture = await createBuildFixture();
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: (message: string) => void warnings.push(message) },
    });
    warnings.length = 0;
    build = (await fixture.build(plan)).id;
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await server.stop(1_000);
    // A generated request may have created a project, and another one may have started its sandbox.
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

  it("answers generated requests of every route, valid and invalid, without failing, hanging or leaking", async () => {
    const all = { name: "all", scope: "admin", validMs: null, createdBy: "a test" } as const;
    const { key: stranger } = await createKey(fixture.app.ports, { ...all, tenant: "acme" });
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
    // What a request for a build may hold, with values of any kind.
    const anything = fc.oneof(word, fc.jsonValue({ maxDepth: 3 }), fc.constant(plan));
    const texts = ["plan", "planUrl", "brief", "requestedBy", "project", "metadata", "source", "agents", "budget"];
    const request = fc.dictionary(fc.constantFrom(...texts, "deliver", "yes", "interactive"), anything, { maxKeys: 3 });
    for (const { path, method, operation } of routes) {
      const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
      const isPlan = operation.requestBody?.content["application/yaml"] !== undefined;
      const body = fc.oneof(
        ...(isPlan ? [request.map((value) => JSON.stringify(value)), request.map((value) => stringify(value))] : []),
        valueFor(schema, word).map((value) => JSON.stringify(value)),
        fc.json({ maxDepth: 3 }),
        word,
      );
      const words = fc.array(word, { minLength: 4, maxLength: 4 });
      const call = fc.record({ words, query, body, isStranger: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(call, async (made) => {
          let at = 0;
          const place = path.replace(/\{\w+\}/g, () => encodeURIComponent(made.words[at++]!));
          const search = new URLSearchParams({
            ...made.query,
            ...(place.endsWith("/events") ? { follow: "false" } : {}),
          });
          const hasBody = method !== "GET" && method !== "DELETE";
          const headers = { authorization: `Bearer ${made.isStranger ? stranger : key}` };
          const response = await raw(`${place}?${search}`, {
            method,
            headers,
            ...(hasBody ? { body: made.body } : {}),
          });
          const text = await response.text();
          // 503 is also our answer if something is missing on this machine.
          const isOurs = response.status < 500 || (response.status === 503 && text.includes('"code":'));
          expect([method, place, response.status, isOurs, text.slice(0, 500)]).toMatchObject({ 3: true });
          if (made.isStranger) expect([method, place, text]).not.toMatchObject({ 2: expect.stringContaining(secret) });
        }),
        { numRuns: 8 },
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

  it("UB1: gives a refusal also to clients that send 50 MB before they read, and to those without a key", async () => {
    const part = Buffer.alloc(64 * 1024, "x");
    const parts = (50 * 1024 * 1024) / part.length;
    const sendAll = ({ path, length, framed }: { path: string; length: string; framed: (part: Buffer) => Buffer[] }) =>
      new Promise<string>((resolve, reject) => {
        const socket = connect(Number(new URL(server.origin).port), "127.0.0.1");
        sockets.push(socket);
        socket.on("error", reject);
        const authorization = path.startsWith("/api/v1/projects") ? `Bearer ${key}` : "Bearer wrong";
        socket.write(
          `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: ${authorization}\r\n${length}\r\n\r\n`,
        );
        for (let sent = 1; sent < parts; sent += 1) for (const piece of framed(part)) socket.write(piece);
        let answer = "";
        socket.on("data", (text) => {
          answer += text;
        });
        socket.on("end", () => resolve(answer));
        socket.pause();
        const last = Buffer.concat([...framed(part), ...framed(Buffer.alloc(0))]);
        socket.write(last, () => socket.resume());
      });
    const known = { length: `Content-Length: ${parts * part.length}`, framed: (piece: Buffer) => [piece] };
    const chunked = {
      length: "Transfer-Encoding: chunked",
      framed: (piece: Buffer) => [Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")],
    };
    const refusals = { "/api/v1/projects": 413, "/api/v1/projects/x/sources": 404, "/e/wrong": 413, "/nowhere": 404 };
    for (const [path, status] of Object.entries(refusals))
      for (const kind of [known, chunked]) {
        const answer = await sendAll({ path, ...kind });
        expect([path, answer.split(" ")[1]]).toEqual([path, String(status)]);
        expect(answer).toContain('"detail":');
      }
  });

  const startHasty = () =>
    startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: () => undefined, bodyMs: 500 },
    });

  it("takes a client that goes away in the middle of a body for no failure of the server", async () => {
    const head = `POST /api/v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n`;
    await open(`${head}Content-Length: 1000\r\n\r\n{`);
    sockets.splice(0)[0]?.destroy();
    const results = async () => {
      const { items } = (await (await raw("/api/v1/audit")).json()) as { items: { action: string; result: number }[] };
      return items.filter(({ action }) => action === "POST /projects").map(({ result }) => result);
    };
    await expect.poll(results, { timeout: 10_000 }).toEqual([400]);
    expect(warnings).toEqual([]);
  });

  it("does nothing about a body whose end comes after the 408", async () => {
    const hasty = await startHasty();
    const socket = connect(Number(new URL(hasty.origin).port), "127.0.0.1");
    sockets.push(socket);
    const head = `POST /api/v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n`;
    socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n5\r\n{"nam\r\n`);
    const answer = await new Promise<string>((resolve) => socket.once("data", (text) => resolve(String(text))));
    socket.write('c\r\ne":"late-1"}\r\n0\r\n\r\n');
    await new Promise((resolve) => socket.once("close", resolve));
    expect(answer.split(" ")[1]).toBe("408");
    await hasty.stop(1_000);
    expect(await (await raw("/api/v1/projects")).text()).not.toContain("late-1");
  });

  it("answers 408 to a body that arrives one byte at a time, and closes the connection", async () => {
    const hasty = await startHasty();
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
        socket.on("error", () => undefined); // it is closed while a byte is in flight
        socket.on("close", () => {
          clearInterval(drip);
          resolve(answer);
        });
      });
    try {
      const paths = ["/api/v1/projects", "/api/v1/plans/check", `/e/${key}`, "/webhooks/ci", "/mcp"];
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

/** Generates values that a schema of the document allows, as far as its types say. */
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
