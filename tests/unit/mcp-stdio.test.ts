import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { createMcpServer } from "../../src/mcp/mcp-server.ts";
import { createStdioTransport } from "../../src/mcp/stdio-transport.ts";

describe("MCP on stdin and stdout", () => {
  it("answers a line that is not JSON with a parse error, and continues", async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const server = createMcpServer(createClient({ baseUrl: "http://127.0.0.1:9", key: "none" }), "1");
    await server.connect(createStdioTransport(input, output));
    const answers = output.setEncoding("utf8")[Symbol.asyncIterator]();
    const next = async () => JSON.parse(String((await answers.next()).value)) as unknown;
    input.write("{ not json\n");
    expect(await next()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32700 } });
    input.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })}\n`);
    expect(await next()).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
    await server.close();
  });
});
