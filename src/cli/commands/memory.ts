import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { memoryTag, setMemory } from "../../api/memory.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { withApp } from "../data/with-app.ts";
import { exit } from "../output/exit-codes.ts";
import type { App } from "../parts.ts";
import { defined } from "../server/defined.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";

/** `memory [show|edit|set FILE]`: what a project remembers of its builds. */
export async function memory(context: Context, action: string, file: string | undefined): Promise<number> {
  if (!["show", "edit", "set"].includes(action)) {
    throw new WavesmithError("usage", `memory has no action ${action}`, {
      remedy: "use wavesmith memory show, edit or set FILE",
    });
  }
  const server = await serverApi(context);
  if (server !== null) return useMemory(context, await serverMemory(context, server), { action, file });
  return withApp(context, async (app) => useMemory(context, await directoryMemory(context, app), { action, file }));
}

/** The memory of one project, in a data directory or on a server. */
interface ProjectMemory {
  /** The name of the project. */
  readonly name: string;
  readonly text: string;
  /** Fails with `conflict` if the memory has changed meanwhile. */
  set(text: string): Promise<void>;
}

interface MemoryCommand {
  readonly action: string;
  readonly file: string | undefined;
}

async function useMemory(context: Context, project: ProjectMemory, { action, file }: MemoryCommand): Promise<number> {
  const { out, json } = context;
  const { name, text: before } = project;
  if (action === "show") {
    if (json) out.json({ project: name, text: before, tag: memoryTag(before) });
    else out.line(before === "" ? `${name} remembers nothing yet` : before.trimEnd());
    return exit.ok;
  }
  const text = action === "edit" ? edited(before, context) : await readNew(file);
  if (text !== before) await project.set(text);
  if (json) out.json({ project: name, text, tag: memoryTag(text) });
  else out.line(text === before ? "nothing changed" : `the agents of ${name} read this from its next task on`);
  return exit.ok;
}

async function directoryMemory(context: Context, { store }: App): Promise<ProjectMemory> {
  const { project } = context.options;
  const rows = await store.projects.list(project === undefined ? {} : { id: projectIdFor("default", project) });
  const { id, name, memory: text } = onlyProject(context, rows);
  return { name, text, set: (changed) => setMemory(store, id, { text: changed, tag: memoryTag(text) }) };
}

async function serverMemory(context: Context, { api, ask }: ServerApi): Promise<ProjectMemory> {
  const { project } = context.options;
  const { items } = await ask(api.GET("/api/v1/projects", { params: { query: defined({ name: project }) } }));
  const { id, name } = onlyProject(context, items);
  const path = { id };
  const { text, tag } = await ask(api.GET("/api/v1/projects/{id}/memory", { params: { path } }));
  return {
    ...{ name, text },
    async set(changed) {
      const request = { params: { path }, body: { text: changed }, headers: { "if-match": tag } };
      await ask(api.PUT("/api/v1/projects/{id}/memory", request));
    },
  };
}

/** The project of `--project`, or the only one. Fails with `not-found`, or `usage` for several. */
function onlyProject<Project extends { readonly name: string }>(
  { options: { project }, hints }: Context,
  projects: readonly Project[],
): Project {
  const [only, ...others] = projects;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined) {
    const none = project === undefined ? "there is no project yet" : `there is no project ${project}`;
    throw new WavesmithError("not-found", none, { remedy: hints.command("build PLAN") });
  }
  throw new WavesmithError("usage", `there are several projects: ${projects.map(({ name }) => name).join(", ")}`, {
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
