import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fetchPlan } from "../../src/server/fetch-plan.ts";

describe("a plan that is named by its address", () => {
  let server: Server;
  let host: string;
  const from = (path: string, timeoutMs?: number) =>
    fetchPlan(`http://${host}${path}`, { privateHosts: [host], ...(timeoutMs === undefined ? {} : { timeoutMs }) });

  beforeAll(async () => {
    server = createServer(({ url = "" }, response) => {
      const to = /^\/to\?(.*)$/.exec(url)?.[1];
      if (to !== undefined) response.writeHead(302, { location: decodeURIComponent(to) }).end();
      else if (url === "/plan.yaml") response.end("name: fetched\n");
      else if (url === "/loop") response.writeHead(307, { location: "/loop" }).end();
      else if (url === "/large") response.end("x".repeat(4 * 1024 * 1024 + 1));
      else if (url === "/slow") response.write("name: ");
      else response.writeHead(404).end("what this network has");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  it("is fetched, even if the address redirects", async () => {
    expect(await from("/plan.yaml")).toBe("name: fetched\n");
    expect(await from("/to?/plan.yaml")).toBe("name: fetched\n");
  });

  it("comes over https and from public addresses only, unless its host is allowed", async () => {
    for (const url of [
      "http://example.com/plan.yaml",
      "file:///etc/passwd",
      "https://user:word@example.com/plan.yaml",
      "not a url",
      "https://127.0.0.1/plan.yaml",
      "https://[::1]/plan.yaml",
      "https://[::ffff:10.0.0.1]/plan.yaml",
      "https://2130706433/plan.yaml",
      "https://169.254.169.254/latest/meta-data",
      `http://${host}/plan.yaml`,
    ])
      await expect(fetchPlan(url, { privateHosts: [] }), url).rejects.toMatchObject({ code: "usage" });
    const named = fetchPlan("https://localhost/plan.yaml", { privateHosts: [] });
    await expect(named).rejects.toThrow("the plan at https://localhost cannot be fetched: its address is not public");
  });

  it("is not fetched from the target of an allowed host's redirect", async () => {
    for (const to of ["http://127.0.0.1:1/x", "https://127.0.0.1/x", "https://localhost/x", "file:///etc/passwd"])
      await expect(from(`/to?${encodeURIComponent(to)}`), to).rejects.toThrow(/not public|must begin with https/);
    await expect(from("/loop")).rejects.toThrow("redirects more than 3 times");
  });

  it("is bounded in size and time, and an error page is not shown", async () => {
    await expect(from("/large")).rejects.toThrow("it is larger than 4194304 bytes");
    await expect(from("/slow", 300)).rejects.toThrow("it took too long");
    const missing = from("/missing").catch((error: Error) => error.message);
    expect(await missing).toBe(`the plan at http://${host} cannot be fetched: it answered 404`);
  });
});
