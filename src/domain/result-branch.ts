/**
 * The branch that a build's result is fetched to in a person's repository: `wavesmith/` and the
 * plan's name.
 */
export function resultBranch(planName: string): string {
  const name = planName
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  return `wavesmith/${name === "" ? "result" : name}`;
}
