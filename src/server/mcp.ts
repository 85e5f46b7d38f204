import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { Context } from "hono";
import { createClient } from "../client/client.ts";
import { createMcpServer } from "../mcp/mcp-server.ts";
import type { Callers } from "./access/keys-and-sessions.ts";
import { problem } from "./problem.ts";
import { type BodyPatience, withBodyInTime } from "./slow-body.ts";

interface McpRoute {
  readonly callers: Callers;
  /** Answers a request to the API. */
  readonly api: (request: Request) => Response | Promise<Response>;
  readonly patience: BodyPatience;
}

/**
 * Answers a request of the Model Context Protocol (streamable HTTP). There are no sessions: each
 * request carries a key, and its tools call the API with that key.
 */
export async function answerMcp({ req }: Context, { callers, api, patience }: McpRoute): Promise<Response> {
  const key = /^Bearer (\S+)$/i.exec(req.header("authorization") ?? "")?.[1];
  if (key === undefined || (await callers.withKey(key)) === null) {
    const remedy = "send Authorization: Bearer KEY; `wavesmith keys create` creates one";
    return problem(401, "unauthorized", "this request has no valid key", remedy);
  }
  if (req.method !== "POST") {
    // There are no sessions to open a stream for, or to end.
    return new Response(null, { status: 405, headers: { allow: "POST" } });
  }
  const request = await withBodyInTime(req.raw, patience);
  if (request instanceof Response) return request;
  const client = createClient({ baseUrl: new URL(req.url).origin, key, fetch: async (request) => api(request) });
  const server = createMcpServer(client, "1");
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  try {
    return await transport.handleRequest(request);
  } finally {
    await server.close();
  }
}
