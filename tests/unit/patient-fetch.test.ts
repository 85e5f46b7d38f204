import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, it } from "vitest";
import { fetchPatiently } from "../../src/cli/server/patient-fetch.ts";
import { createClient, dataOf } from "../../src/client/client.ts";

let close: () => void = () => undefined;
afterEach(() => close());

async function serverThat(answers: RequestListener): Promise<string> {
  const server = createServer(answers);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  close = () => void server.close();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("the requests of commands that may take long", () => {
  it("carry a method, headers and a body, and return what the server answers", async () => {
    const url = await serverThat(async (request, response) => {
      const { method, headers } = request;
      response.writeHead(201, { "content-type": "application/json", "set-cookie": ["a=1", "b=2"] });
      response.end(JSON.stringify({ method, key: headers.authorization, body: await text(request) }));
    });
    const asked = { method: "POST", headers: { authorization: "Bearer k" }, body: '{"format":"tar"}' };
    const response = await fetchPatiently(new Request(`${url}/x`, asked));
    expect(response).toMatchObject({ status: 201, ok: true, url: `${url}/x` });
    expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(await response.json()).toEqual({ method: "POST", key: "Bearer k", body: '{"format":"tar"}' });
  });

  it("take an answer without a body", async () => {
    const url = await serverThat((_, response) => void response.writeHead(204).end());
    const response = await fetchPatiently(new Request(url, { method: "DELETE" }));
    expect([response.status, await response.text()]).toEqual([204, ""]);
  });

  it("fail with the server's problem, and with the reason when nothing answers", async () => {
    const url = await serverThat((_, response) => void response.writeHead(502).end("bad gateway"));
    const { api } = createClient({ baseUrl: url, fetch: fetchPatiently });
    const ask = () => dataOf(api.GET("/api/v1/snapshots"));
    await expect(ask()).rejects.toThrow(`${url}/api/v1/snapshots answered 502, but not as Wavesmith's API does`);
    close();
    await expect(ask()).rejects.toMatchObject({
      code: "unreachable",
      message: `${url} cannot be reached: ECONNREFUSED`,
    });
  });

  it("end with their signal", async () => {
    const stop = new AbortController();
    const url = await serverThat(() => stop.abort());
    await expect(fetchPatiently(new Request(url, { signal: stop.signal }))).rejects.toThrow("aborted");
  });
});
