// Folders that package managers and test runners fill. They are left out of what is kept although
// nobody wrote a .gitignore; a name that the base itself has files under is the project's own and
// is not on this list then.
export const dependencyFolders = [
  "node_modules",
  ".venv",
  "venv",
  "__pycache__",
  ".pytest_cache",
  ".mypy_cache",
  ".ruff_cache",
  ".tox",
  ".gradle",
];

/** The dependency folders of a tree with these folders, by name. */
export function excludedFolders(foldersOfBase: readonly string[]): string[] {
  const own = new Set(foldersOfBase.flatMap((path) => path.split("/")));
  return dependencyFolders.filter((name) => !own.has(name));
}

/** Text for `info/exclude`. */
export function excludeRules(folders: readonly string[]): string {
  return folders.map((name) => `${name}/\n`).join("");
}

// What a file's bytes are must not depend on what attributes a tree carries: no line ends
// converted, no filter, no keyword, no encoding. In info/attributes, which has the last word.
export const exactBytes = "* -text !eol !ident !filter !working-tree-encoding\n";
