/** Files that package managers write: long, and of no use to a reader of a change. */
const lockFileNames = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "*.lock", "go.sum"];

/** Their globs, at any depth. */
export const lockFileGlobs = lockFileNames.map((name) => `**/${name}`);
