// An ACP agent without any library, so that it starts quickly. The prompt `at FILE` writes the time
// of its arrival to FILE, in ms since 1970. `updates N RATE` sends N updates, RATE per second,
// messages and tool calls alternately; the first and the last contain the time.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const now = () => performance.timeOrigin + performance.now();
const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (value) => write({ method: "session/update", params: { sessionId: "bench", update: value } });

function one(number) {
  const text = `u${number};\n`;
  if (number % 2 === 0) update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  else
    update({
      sessionUpdate: "tool_call",
      toolCallId: `call-${number}`,
      title: `u${number};`,
      kind: "read",
      status: "completed",
      rawInput: { number },
    });
}

async function updates(count, perSecond) {
  const begun = performance.now();
  for (let sent = 0; sent < count; ) {
    const due = Math.min(count, Math.ceil(((performance.now() - begun) * perSecond) / 1000));
    for (; sent < due; sent += 1) one(sent);
    await new Promise((wake) => setTimeout(wake, 5));
  }
  appendFileSync("sent", `${performance.now() - begun} ${now()}`);
}

const answers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {} }),
  "session/new": () => ({ sessionId: "bench" }),
  "session/prompt": async ({ prompt }) => {
    const at = now();
    const [word, ...rest] = prompt
      .map(({ text }) => text)
      .join("")
      .split("\n")
      .find((line) => /^(at|updates) /.test(line))
      .split(" ");
    if (word === "at") appendFileSync(rest[0], String(at));
    else await updates(Number(rest[0]), Number(rest[1]));
    return { stopReason: "end_turn" };
  },
};

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id !== undefined && method !== undefined) write({ id, result: (await answers[method]?.(params)) ?? null });
});
