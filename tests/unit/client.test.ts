import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { apiTypes } from "../../scripts/api-types.ts";
import type { ApiError } from "../../src/client/api-error.ts";
import { createClient, dataOf } from "../../src/client/client.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Starts a server that gives its answers one after the other. */
async function serverWith(...answers: ((request: IncomingMessage, response: ServerResponse) => void)[]) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    answers.shift()!(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { baseUrl, asked, client: createClient({ baseUrl, key: "k" }) };
}

const events = (response: ServerResponse, ...ids: number[]): void => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const id of ids) response.write(`: still here\n\nid: ${id}\nevent: agent/wave.start\ndata: {"n":${id}}\n\n`);
};

describe("the client of the API", () => {
  it("has the types of the current document: run `npm run client` if this fails", async () => {
    const present = readFileSync(new URL("../../src/client/api-types.ts", import.meta.url), "utf8");
    expect(present).toBe(await apiTypes());
  });

  it("sends the key, and returns what a route answers", async () => {
    const { client, asked } = await serverWith((_, response) => {
      response.setHeader("content-type", "application/json").end('{"id":"p1","name":"shop","createdAt":"now"}');
    });
    const path = { id: "a shop/1" };
    const project = await dataOf(client.api.GET("/api/v1/projects/{id}", { params: { path } }));
    expect(project.name).toBe("shop");
    expect(asked[0]!.url).toBe("/api/v1/projects/a%20shop%2F1");
    expect(asked[0]!.headers.authorization).toBe("Bearer k");
  });

  it("fails with the code and the remedy of a problem", async () => {
    const { client } = await serverWith((_, response) => {
      response.writeHead(429, { "content-type": "application/problem+json", "retry-after": "3" });
      response.end('{"status":429,"code":"capacity","detail":"too many builds","remedy":"wait"}');
    });
    const failure = await dataOf(client.api.GET("/api/v1/builds")).catch((error: unknown) => error as ApiError);
    expect(failure).toMatchObject({
      ...{ status: 429, code: "capacity", message: "too many builds", remedy: "wait", retryAfterMs: 3_000 },
    });
  });

  it("says that the server cannot be reached if something else answers, or nothing does", async () => {
    const { client, baseUrl } = await serverWith((_, response) => response.writeHead(404).end("<h1>nginx</h1>"));
    await expect(dataOf(client.api.GET("/api/v1/builds"))).rejects.toMatchObject({ code: "unreachable", status: 404 });
    for (const close of closers.splice(0)) close();
    const failure = dataOf(client.api.GET("/api/v1/builds"));
    await expect(failure).rejects.toMatchObject({ code: "unreachable", status: 0 });
    await expect(failure).rejects.toThrow(`${baseUrl} cannot be reached: ECONNREFUSED`);
  });
});

describe("following a build", () => {
  it("continues after the last event when the connection is lost, and repeats nothing", async () => {
    const lost: string[] = [];
    const { client, asked } = await serverWith(
      (_, response) => {
        events(response, 4, 7);
        response.write("id: 8\nevent: agent/wave.start\nda", () => response.destroy());
      },
      (_, response) => void response.destroy(),
      (_, response) => {
        events(response, 8);
        response.write("id: 8\nevent: end\ndata: {}\n\n");
      },
    );
    const seen: unknown[] = [];
    const onLost = (error: Error): void => void lost.push(error.message);
    for await (const { id, event, data } of client.followBuild("b", { after: 2, onLost })) seen.push([id, event, data]);
    expect(seen).toEqual([
      [4, "agent/wave.start", { n: 4 }],
      [7, "agent/wave.start", { n: 7 }],
      [8, "agent/wave.start", { n: 8 }],
      [8, "end", {}],
    ]);
    expect(asked.map(({ headers }) => headers["last-event-id"])).toEqual(["2", "7", "7"]);
    expect(lost).toHaveLength(2);
  });

  it("ends without an error at its signal, and closes the connection", async () => {
    let markClosed: () => void = () => undefined;
    const gone = new Promise<void>((resolve) => {
      markClosed = resolve;
    });
    const { client } = await serverWith((_, response) => {
      response.on("close", markClosed);
      events(response, 1);
    });
    const stop = new AbortController();
    const seen: number[] = [];
    for await (const { id } of client.followBuild("b", { signal: stop.signal })) {
      seen.push(id);
      stop.abort();
    }
    expect(seen).toEqual([1]);
    await gone;
  });

  it("fails at once when the server refuses", async () => {
    const { client, asked } = await serverWith((_, response) => {
      response.writeHead(404, { "content-type": "application/problem+json" });
      response.end('{"status":404,"code":"not-found","detail":"there is no build b"}');
    });
    await expect(client.followBuild("b").next()).rejects.toMatchObject({ code: "not-found" });
    expect(asked).toHaveLength(1);
  });
});
