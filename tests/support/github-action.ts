import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";

// Runs the composite action of `action.yml` as GitHub's runner does: each step's script in bash,
// with the step's environment, and only there. Anything that the runner would not understand is
// refused.

const text = z.string();
const expressions = z.record(text, text);
const actionSchema = z.strictObject({
  name: text,
  description: text,
  inputs: z.record(
    text,
    z.strictObject({ description: text, required: z.boolean().optional(), default: text.optional() }),
  ),
  outputs: z.record(text, z.strictObject({ description: text, value: text })),
  runs: z.strictObject({
    using: z.literal("composite"),
    steps: z.array(
      z.strictObject({ id: text.optional(), shell: z.literal("bash"), env: expressions.default({}), run: text }),
    ),
  }),
});

interface ActionRun {
  /** The folder where a workflow has checked out the repository. */
  readonly folder: string;
  readonly inputs: Readonly<Record<string, string>>;
  /** The runner's environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface ActionEnd {
  readonly code: number | null;
  readonly text: string;
  readonly outputs: Readonly<Record<string, string>>;
  readonly summary: string;
}

/** Runs the action to its end, or until a step fails. */
export async function runAction({ folder, inputs, env }: ActionRun): Promise<ActionEnd> {
  const path = fileURLToPath(new URL("../../action.yml", import.meta.url));
  const action = actionSchema.parse(parse(readFileSync(path, "utf8")));
  const given = inputsOf(action, inputs);
  const known: Record<string, Readonly<Record<string, string>>> = { inputs: given };
  const [summaryFile, outputFile] = [join(folder, ".summary"), join(folder, ".output")];
  for (const file of [summaryFile, outputFile]) writeFileSync(file, "");
  let [code, said]: [number | null, string] = [0, ""];
  for (const { id, env: own, run } of action.runs.steps) {
    if (code !== 0) break;
    const files = { GITHUB_STEP_SUMMARY: summaryFile, GITHUB_OUTPUT: outputFile };
    const ofStep = Object.fromEntries(Object.entries(own).map(([name, value]) => [name, evaluated(value, known)]));
    const step = await runScript(evaluated(run, known), { folder, env: { ...env, ...files, ...ofStep } });
    code = step.code;
    said += step.text;
    const lines = readFileSync(outputFile, "utf8")
      .split("\n")
      .filter((line) => line !== "");
    const outputs = Object.fromEntries(lines.map((line) => [line.split("=")[0]!, line.slice(line.indexOf("=") + 1)]));
    if (id !== undefined) known[`steps.${id}.outputs`] = outputs;
  }
  const outputs = Object.entries(action.outputs).map(([name, { value }]) => [name, evaluated(value, known)]);
  return { code, text: said, outputs: Object.fromEntries(outputs), summary: readFileSync(summaryFile, "utf8") };
}

function inputsOf({ inputs }: z.infer<typeof actionSchema>, given: ActionRun["inputs"]): Record<string, string> {
  for (const name of Object.keys(given)) if (inputs[name] === undefined) throw new Error(`there is no input ${name}`);
  return Object.fromEntries(
    Object.entries(inputs).map(([name, { required, default: usual }]) => {
      const value = given[name] ?? usual;
      if (value === undefined && required === true) throw new Error(`the input ${name} is missing`);
      return [name, value ?? ""];
    }),
  );
}

/**
 * Replaces `${{ inputs.plan }}` and the like. An unknown name is an error here, and empty on
 * GitHub.
 */
function evaluated(value: string, known: Readonly<Record<string, Readonly<Record<string, string>>>>): string {
  return value.replace(/\$\{\{\s*(.+?)\s*\}\}/g, (_, name: string) => {
    const [of, field] = [name.slice(0, name.lastIndexOf(".")), name.slice(name.lastIndexOf(".") + 1)];
    const found = known[of];
    if (found === undefined || (of === "inputs" && found[field] === undefined)) throw new Error(`there is no ${name}`);
    return found[field] ?? ""; // A step that failed may have no outputs.
  });
}

async function runScript(
  script: string,
  { folder, env }: Pick<ActionRun, "folder" | "env">,
): Promise<{ code: number | null; text: string }> {
  const file = join(folder, ".step.sh");
  writeFileSync(file, script);
  const child = spawn("bash", ["--noprofile", "--norc", "-eo", "pipefail", file], { cwd: folder, env });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (part: string) => {
      said += part;
    });
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, text: said };
}
