/**
 * Returns the branch in a person's repository that receives a build's result: `wavesmith/` and the
 * plan's name.
 */
export function resultBranch(planName: string): string {
  const name = planName
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  return `wavesmith/${name === "" ? "result" : name}`;
}
