// Replays the messages of a real agent that capture-agent.mjs has written, each once the client has
// sent what came before it: node replay-agent.mjs FILE FOLDER
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [file, folder] = process.argv.slice(2);
const messages = readFileSync(file, "utf8")
  .replaceAll("{folder}", folder)
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => JSON.parse(line));
/** The client's ids, by the recorded ones. */
const ids = new Map();
let at = 0;

function send() {
  for (; messages[at]?.from === "agent"; at += 1) {
    const { message } = messages[at];
    const isReply = message.method === undefined && ids.has(message.id);
    process.stdout.write(`${JSON.stringify(isReply ? { ...message, id: ids.get(message.id) } : message)}\n`);
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  // What the client sends at a time of its own, such as a cancel, may come a message earlier or
  // later.
  const wanted = messages.findIndex(({ from, message: { method } }, index) => {
    return index >= at && from === "client" && method === message.method;
  });
  if (wanted < 0) return;
  if (message.id !== undefined) ids.set(messages[wanted].message.id, message.id);
  messages.splice(wanted, 1);
  send();
});
