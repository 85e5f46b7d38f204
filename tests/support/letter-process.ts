// Asks one question at its terminal once the file named by its argument exists, and prints the
// answer.
import { existsSync } from "node:fs";
import { createLetterReader } from "../../src/cli/keys/letter-reader.ts";

const say = (text: string): boolean => process.stdout.write(`[${text}]\n`);

const reader = createLetterReader(process.stdin, {
  typing: (line) => say(`typing ${line}`),
  interrupted: () => say("interrupted"),
});
say("begun");
while (!existsSync(process.argv[2] ?? "")) await new Promise((wake) => setTimeout(wake, 20));
const answer = new Promise<string>((resolve) => {
  reader.ask({ name: "it", letters: ["a", "d"], answer: resolve });
});
setTimeout(() => say("asked"), 600);
say(`answer ${await answer}`);
reader.close();
