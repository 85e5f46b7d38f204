// Stands between an ACP client and an agent, and writes what passes in a file, one message a line,
// the folder of the test left out: node capture-agent.mjs FILE FOLDER COMMAND
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";

const [file, folder, command] = process.argv.slice(2);
const child = spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "inherit"] });

function record(from) {
  let rest = "";
  return (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines.filter((text) => text.startsWith("{"))) {
      const text = line.replaceAll(folder, "{folder}");
      appendFileSync(file, `${JSON.stringify({ from, message: JSON.parse(text) })}\n`);
    }
  };
}

const [fromClient, fromAgent] = [record("client"), record("agent")];
process.stdin.setEncoding("utf8").on("data", (chunk) => {
  fromClient(chunk);
  child.stdin.write(chunk);
});
process.stdin.on("end", () => child.stdin.end());
child.stdout.setEncoding("utf8").on("data", (chunk) => {
  fromAgent(chunk);
  process.stdout.write(chunk);
});
child.stdin.on("error", () => undefined);
child.on("exit", (code, signal) => process.exit(signal === null ? code : 1));
process.on("SIGTERM", () => child.kill("SIGTERM"));
