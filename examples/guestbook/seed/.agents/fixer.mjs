// The scripted fixer: it has no drafts, only the findings of the gate. It looks for a finding it understands, follows it
// to the line that is at fault, mends that line, and runs the test that failed before it says it is done.
import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";

const prompt = await text(process.stdin);
const { findings = [] } = JSON.parse(await readFile(process.env.WAVESMITH_TASK_FILE, "utf8"));

function giveUp(reason) {
  console.error(`I cannot mend this: ${reason}`);
  process.exit(1);
}

for (const { rule, message, file } of findings) console.log(`found: [${rule}] ${message.split("\n")[0]}${file ? ` (${file})` : ""}`);
await pause(400);

// "markup in the message of an entry is shown as text": something a visitor wrote reaches the page unescaped.
// The findings name the tests that failed; the prompt has the end of the tests' own output as well.
const failed = [...findings.map(({ message }) => message), ...prompt.split("\n").filter((line) => /^\s*not ok/.test(line))];
const field = failed.map((line) => /markup in the (\w+) of an entry is shown as text/.exec(line)?.[1]).find(Boolean);
if (!field) giveUp("none of the findings is of a kind I know.");
console.log(`… a visitor's ${field} reaches the page as markup; who calls raw() on it?`);
await pause(400);

const path = "src/pages/home.js";
const lines = (await readFile(path, "utf8")).split("\n");
const at = lines.findIndex((line) => line.includes("raw(") && new RegExp(`raw\\(${field}\\b`).test(line));
if (at < 0) giveUp(`no line of ${path} calls raw() on ${field}.`);
console.log(`… ${path}:${at + 1} does: ${lines[at].trim()}`);
lines[at] = lines[at].replace(`raw(${field}`, `raw(escape(${field})`);
const mended = lines.join("\n").replace('import { html, raw } from', 'import { escape, html, raw } from');
await writeFile(path, mended);
await pause(300);

const test = spawnSync(process.execPath, ["--test", "test/home.test.js"], { encoding: "utf8" });
if (test.status !== 0) giveUp(`the test still fails:\n${test.stdout.slice(-2000)}`);
const summary = `The ${field} of an entry is escaped before its line breaks become <br>; test/home.test.js passes.`;
await writeFile(process.env.WAVESMITH_RESULT_FILE, JSON.stringify({ summary }));
console.log(summary);
