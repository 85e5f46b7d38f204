import { describe, expect, it } from "vitest";
import { createEvents } from "../../src/agent-host/events.ts";

/** What `logs` shows of an agent's standard error. */
function shown(...lines: string[]): string[] {
  const written: string[] = [];
  const events = createEvents((line) => written.push(line.trimEnd()));
  events.noise(`${lines.join("\n")}\n`);
  events.flush();
  return written;
}

// As opencode 1.18.33 prints it when its provider has failed.
const dump = `Error handling request {
  jsonrpc: "2.0",
  id: 2,
  method: "session/prompt",
  params: {
    sessionId: "ses_df55c07e17ffevGeop5AfQlRqg0",
    prompt: [
      [Object ...]
    ],
  },
} {
  code: -32603,
  message: "Internal error: the provider is broken",
  data: {
    service: "session",
    errorName: "APIError",
  },
}`.split("\n");
const code = `48213 | ${"var a=b(c);".repeat(30)}`;

describe("what an agent prints about an error", () => {
  it("is the message of a request that failed, not the request", () => {
    expect(shown("before", ...dump, "after")).toEqual([
      "| before",
      "| Error handling request: Internal error: the provider is broken",
      "| after",
    ]);
  });

  it("is the message of an exception, not its trace or minified code", () => {
    const trace = [
      "    at run (/$bunfs/root/src/index.js:48213:120)",
      "    at async /app/main.js:1:9",
      "    at map (native)",
    ];
    const error = [code, "                 ^", "TypeError: nothing is there", '      code: "ERR_X"', ...trace];
    expect(shown(...error)).toEqual(["| TypeError: nothing is there", '|       code: "ERR_X"']);
    const ofRequest = [...dump.slice(0, 10), `} ${code}`, "     ^", "error: it broke", ...trace, "after"];
    expect(shown(...ofRequest)).toEqual(["| error: it broke", "| after"]);
  });

  it("is whole otherwise", () => {
    const lines = [
      "  at noon (the server)",
      "12 | a table",
      "   ^",
      "{",
      '  message: "own"',
      "}",
      "Error handling requests",
    ];
    expect(shown(...lines)).toEqual(lines.map((line) => `| ${line}`));
    expect(shown(dump[0]!, "  id: 2,", "something else")).toEqual(["| something else"]);
  });
});
