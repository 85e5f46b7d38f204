import { agentFileNames } from "../../domain/paths/agent-files.ts";

const either = (flag: string, values: readonly string[]): string[] =>
  values.flatMap((value, index) => (index === 0 ? [flag, value] : ["-o", flag, value]));

/** Installed packages have their own agent files, which do not count. */
const installed = ["(", ...either("-name", [".git", "node_modules", ".venv", "vendor"]), ")", "-prune", "-o"];
const named = [
  "(",
  ...either(
    "-ipath",
    agentFileNames.flatMap((name) => [`*/${name}`, `*/${name}/*`]),
  ),
  ")",
];

/** Arguments for `find .` that select agent files below a folder; append a `-print…`. */
export const agentFileSearch: readonly string[] = [...installed, ...named, "!", "-type", "d"];
