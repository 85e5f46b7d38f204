/** Files that package managers write: long, and useless to somebody who reads a change. */
const lockFileNames = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "*.lock", "go.sum"];

/** Their globs, at any depth. */
export const lockFileGlobs = lockFileNames.map((name) => `**/${name}`);
