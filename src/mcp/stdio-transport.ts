import type { Readable, Writable } from "node:stream";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

/**
 * Answers a line that is not JSON with a JSON-RPC error, so that its sender does not wait for ever.
 */
export function createStdioTransport(input: Readable, output: Writable): StdioServerTransport {
  const transport = new StdioServerTransport(input, output);
  const start = transport.start.bind(transport);
  transport.start = async () => {
    const { onerror } = transport;
    transport.onerror = (error) => {
      onerror?.(error);
      if (!(error instanceof SyntaxError)) return;
      const fault = { code: -32700, message: "Parse error: the line is not JSON" };
      output.write(`${JSON.stringify({ jsonrpc: "2.0", id: null, error: fault })}\n`);
    };
    await start();
  };
  return transport;
}
