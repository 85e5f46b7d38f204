// A scripted agent. It keeps to the same contract as any agent: the prompt on stdin, the task as data in
// $WAVESMITH_TASK_FILE, its summary in $WAVESMITH_RESULT_FILE, its work in the folder it is started in,
// and exit 0 for "finished". See README.md beside this file.
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";

const prompt = await text(process.stdin);
const { task } = JSON.parse(await readFile(process.env.WAVESMITH_TASK_FILE, "utf8"));
const here = import.meta.dirname;
const drafts = join(here, "drafts", task.id);
const { says = [], summary = task.title } = JSON.parse(await readFile(join(here, "lines.json"), "utf8"))[task.id] ?? {};

console.log(`I am the ${task.agent} agent. My task: ${task.title} (${prompt.split("\n").length} lines to read)`);
await pause(300);
for (const line of says) {
  console.log(`… ${line}`);
  await pause(350);
}

for (const found of await readdir(drafts, { recursive: true, withFileTypes: true })) {
  if (!found.isFile()) continue;
  const draft = join(found.parentPath, found.name);
  const path = relative(drafts, draft).replace(/^dot-/, "."); // packages leave out files named .gitignore
  const content = await readFile(draft, "utf8");
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
  console.log(`wrote ${path} (${content.split("\n").length - 1} lines)`);
  await pause(200);
}

await writeFile(process.env.WAVESMITH_RESULT_FILE, JSON.stringify({ summary }));
console.log(summary);
