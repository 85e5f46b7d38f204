/** A setup command and the files of which it needs at least one. */
export interface SetupInput {
  readonly command: string;
  readonly anyOf: readonly string[];
}

const rules: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^npm (ci|clean-install)$/, ["package-lock.json", "npm-shrinkwrap.json"]],
  [/^npm (install|i)$/, ["package.json"]],
  [/^(pnpm|yarn|bun) install$/, ["package.json"]],
  [/^yarn$/, ["package.json"]],
  [/^bundle install$/, ["Gemfile"]],
  [/^composer install$/, ["composer.json"]],
  [/^cargo (fetch|build)$/, ["Cargo.toml"]],
  [/^go mod download$/, ["go.mod"]],
  [/^(poetry install|uv sync)$/, ["pyproject.toml"]],
];
const requirements = /^(?:\S*python\S* -m )?\S*pip3? install (?:.* )?(?:-r|--requirement)[ =]?([\w./-]+)(?: |$)/;
const script = /^(?:(?:sh|bash|node|python3?) )?(\.?\/?[\w-][\w./-]*\.(?:sh|bash|js|mjs|cjs|py))(?: |$)/;

/**
 * Returns the files that a setup's well-known commands need. Nothing if we cannot tell, for example
 * after `cd` or in a script with conditions.
 */
export function setupInputs(run: string): SetupInput[] {
  const commands = run.split(/&&|;|\n/).map((command) => command.trim());
  if (commands.some((command) => isUnclear(command))) return [];
  return commands.flatMap((command) => {
    const anyOf = inputsOf(command);
    return anyOf === null ? [] : [{ command, anyOf }];
  });
}

const isUnclear = (command: string): boolean =>
  /^(cd|pushd|if|for|while|case|test|git|cp|mv|curl|wget|npm init)\b|^\[|[|<>`$(){}*?"'\\]/.test(command);

/**
 * Returns the file of the tree that a command runs, such as `sh ./agent.sh`; null if it runs none.
 */
export const scriptOf = (command: string): string | null => pathInTree(script.exec(command)?.[1]);

function pathInTree(file: string | undefined): string | null {
  return file === undefined || file.startsWith("/") || file.includes("..") ? null : file.replace(/^\.\//, "");
}

function inputsOf(command: string): readonly string[] | null {
  const file = pathInTree(requirements.exec(command)?.[1]) ?? scriptOf(command);
  if (file !== null) return [file];
  const words = command.split(/\s+/);
  // The command names its own folder, or installs packages by name.
  if (/ (--prefix|-C|--cwd|--dir|--manifest-path|--project|--directory|-g|--global)\b/.test(command)) return null;
  const plain = words.filter((word) => !word.startsWith("-")).join(" ");
  return rules.find(([pattern]) => pattern.test(plain))?.[1] ?? null;
}
