import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

/** Lists where a result violates the schema, one line each; empty when it is valid. */
function resultProblems(schema: unknown, result: unknown): string[] {
  const parsed = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(result);
  if (parsed.success) return [];
  return parsed.error.issues
    .slice(0, 10)
    .map(({ path, message }) => `${path.length === 0 ? "the result" : path.join(".")}: ${message}`);
}

/** Reads a result file. `problems` is null when there is no file yet. */
export function checkResultFile(schema: unknown, file: string): { problems: string[] | null } {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { problems: null };
    throw error;
  }
  try {
    return { problems: resultProblems(schema, JSON.parse(text)) };
  } catch (error) {
    return { problems: [`it is not JSON: ${(error as Error).message}`] };
  }
}

/** Serves the tool `submit_result` on stdin and stdout until the agent closes them. */
export async function serveSubmitResult(schemaFile: string, resultFile: string): Promise<void> {
  const schema = JSON.parse(readFileSync(schemaFile, "utf8"));
  const server = new Server({ name: "wavesmith", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: [
      {
        name: "submit_result",
        description: "Submits your result. Call it once, at the end, with everything the schema asks for.",
        inputSchema: schema,
      },
    ],
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    if (params.name !== "submit_result") return answer(`there is no tool ${params.name}`, true);
    const problems = resultProblems(schema, params.arguments);
    if (problems.length > 0)
      return answer(`not accepted: fix this and call the tool again:\n${problems.join("\n")}`, true);
    // Written atomically, because it is read as soon as it exists.
    writeFileSync(`${resultFile}.tmp`, JSON.stringify(params.arguments));
    renameSync(`${resultFile}.tmp`, resultFile);
    return answer("accepted: your work is done", false);
  });
  await server.connect(new StdioServerTransport());
}

const answer = (text: string, isError: boolean) => ({ content: [{ type: "text" as const, text }], isError });
