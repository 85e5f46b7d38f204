import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Environment } from "./checks/check-environment.ts";
import { type ParsedPlan, parsePlan } from "./parse-plan.ts";

/**
 * Reads, checks and normalises a plan file: JSON if its name ends in `.json`, otherwise YAML. An
 * unreadable file is a fault, too.
 */
export async function loadPlanFile(path: string, options: { readonly env: Environment }): Promise<ParsedPlan> {
  const file = resolve(path);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const message = `The plan ${path} cannot be read: ${reason((error as NodeJS.ErrnoException).code)}.`;
    const faults = [{ code: "missing-file", path: "", line: null, message }];
    return { plan: null, outline: null, graph: null, warnings: [], faults };
  }
  const format = file.toLowerCase().endsWith(".json") ? "json" : "yaml";
  return parsePlan(text, { format, baseDir: dirname(file), env: options.env });
}

function reason(code: string | undefined): string {
  if (code === "ENOENT") return "there is no such file";
  if (code === "EISDIR") return "it is a folder; name the plan file in it";
  return code === "EACCES" ? "you may not read it" : (code ?? "unknown reason");
}
