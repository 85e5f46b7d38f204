import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import { shellWord } from "../../domain/shell-word.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";

const starter = `# A plan: tasks for agents, with dependencies. \`wavesmith plan FILE\` shows the waves, \`wavesmith build FILE\` runs it.
name: my-project

# Agents are commands: the prompt comes on stdin, the current folder is the task's own tree, exit 0 means finished.
# agents:
#   default: { command: "my-agent --headless", runtime: command }

# Where the tree starts; without it, from the git repository you are in, or else from nothing.
# source: { path: . }

# Checked after every wave, on a clean copy of the joined tree.
gates:
  testing: { command: "sh ./test.sh", from: test }

tasks:
  - id: greeting
    title: Say hello
    run: |
      echo 'echo "Hello, $1!"' > greet.sh
    writes: [greet.sh]

  - id: test
    title: Test the greeting
    dependsOn: [greeting]
    run: |
      cat > test.sh <<'SCRIPT'
      echo 1..1
      [ "$(sh greet.sh Ada)" = "Hello, Ada!" ] && echo "ok 1 - greets" || { echo "not ok 1 - greets"; exit 1; }
      SCRIPT
    writes: [test.sh]
`;

/** `init [FILE]`: writes a starter plan that runs unchanged; never overwrites a file. */
export async function init(context: Context, name: string | undefined): Promise<number> {
  const file = resolve(name ?? "plan.yaml");
  try {
    const handle = await open(file, "wx");
    await handle.writeFile(starter);
    await handle.close();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const message = code === "EEXIST" ? `${file} already exists` : `${file} cannot be written (${code})`;
    throw new WavesmithError("usage", message, { remedy: context.hints.command("init another.yaml"), cause: error });
  }
  if (context.json) context.out.json({ plan: file });
  else context.out.line(`wrote ${file}\nnext: ${context.hints.command(`build ${shellWord(name ?? "plan.yaml")}`)}`);
  return exit.ok;
}
