import { agentFileNames } from "../../domain/agent-files.ts";

const either = (flag: string, values: readonly string[]): string[] =>
  values.flatMap((value, index) => (index === 0 ? [flag, value] : ["-o", flag, value]));

/** Packages bring agents' files of their own, for who works on the package. */
const installed = ["(", ...either("-name", [".git", "node_modules", ".venv", "vendor"]), ")", "-prune", "-o"];
const named = [
  "(",
  ...either(
    "-ipath",
    agentFileNames.flatMap((name) => [`*/${name}`, `*/${name}/*`]),
  ),
  ")",
];

/**
 * What `find .` is told to find the files below a folder that agents take as instructions; a
 * `-print…` goes after it.
 */
export const agentFileSearch: readonly string[] = [...installed, ...named, "!", "-type", "d"];
