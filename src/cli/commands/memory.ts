import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { memoryTag, setMemory } from "../../api/memory.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { withApp } from "../data/find-sandbox.ts";
import { exit } from "../output/exit-codes.ts";
import type { App } from "../parts.ts";

/** `memory [show|edit|set FILE]`: what a project remembers of its builds. */
export function memory(context: Context, action: string, file: string | undefined): Promise<number> {
  if (!["show", "edit", "set"].includes(action)) {
    throw new WavesmithError("usage", `memory has no action ${action}`, {
      remedy: "use wavesmith memory show, edit or set FILE",
    });
  }
  return withApp(context, async (app) => {
    const { id, name, memory: before } = await findProject(app, context);
    if (action === "show") {
      if (context.json) context.out.json({ project: name, text: before, tag: memoryTag(before) });
      else context.out.line(before === "" ? `${name} remembers nothing yet` : before.trimEnd());
      return exit.ok;
    }
    const text = action === "edit" ? edited(before, context) : await readNew(file);
    if (text !== before) await setMemory(app.store, id, { text, tag: memoryTag(before) });
    if (context.json) context.out.json({ project: name, text, tag: memoryTag(text) });
    else context.out.line(text === before ? "nothing changed" : `${name} remembers this from its next task on`);
    return exit.ok;
  });
}

/** The project of `--project`, or the only one. */
async function findProject({ store }: App, { options, hints }: Context) {
  const { project } = options;
  const rows = await store.projects.list(project === undefined ? {} : { id: projectIdFor("default", project) });
  const [only, ...others] = rows;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined) {
    throw new WavesmithError(
      "not-found",
      project === undefined ? "there is no project yet" : `there is no project ${project}`,
      {
        remedy: hints.command("build PLAN"),
      },
    );
  }
  throw new WavesmithError("usage", `there are several projects: ${rows.map(({ name }) => name).join(", ")}`, {
    remedy: hints.command("memory --project NAME"),
  });
}

async function readNew(file: string | undefined): Promise<string> {
  if (file === undefined)
    throw new WavesmithError("usage", "memory set needs a file", { remedy: "name one, or - for stdin" });
  if (file === "-") return textOf(process.stdin);
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    const why = isMissing ? `there is no file ${file}` : `cannot read ${file}: ${messageOf(error)}`;
    throw new WavesmithError("usage", why, {
      remedy: "name the file with what the project should remember, or - for stdin",
    });
  }
}

function edited(before: string, { environment }: Context): string {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-memory-"));
  try {
    const file = join(folder, "memory.md");
    writeFileSync(file, before);
    const editor = environment.VISUAL ?? environment.EDITOR ?? "vi";
    const { status, error } = spawnSync("sh", ["-c", `${editor} "$1"`, "editor", file], { stdio: "inherit" });
    if (status !== 0) {
      const why = error === undefined ? `ended with ${status}` : messageOf(error);
      throw new WavesmithError("environment", `the editor ${editor} ${why}; nothing changed`, {
        remedy: "set EDITOR, or use memory set FILE",
      });
    }
    return readFileSync(file, "utf8");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
