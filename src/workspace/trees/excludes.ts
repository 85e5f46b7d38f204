// Folders that package managers and test runners fill. They are left out of commits even without a
// .gitignore, unless the base itself has files in a folder of that name.
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

/** Returns the names of the dependency folders to exclude, given the folders of the base. */
export function excludedFolders(foldersOfBase: readonly string[]): string[] {
  const own = new Set(foldersOfBase.flatMap((path) => path.split("/")));
  return dependencyFolders.filter((name) => !own.has(name));
}

/** Returns the text of `info/exclude`. */
export function excludeRules(folders: readonly string[]): string {
  return folders.map((name) => `${name}/\n`).join("");
}

// A tree's attributes must not change a file's bytes: no conversion of line endings, no filter, no
// keyword, no encoding. Goes into info/attributes, which overrides the tree's.
export const exactBytes = "* -text !eol !ident !filter !working-tree-encoding\n";
