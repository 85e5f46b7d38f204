/**
 * Leaves out the usage that npm prints between an error and the end of its output, which would be
 * all that the last lines show.
 */
export function withoutUsage(lines: readonly string[]): string[] {
  let isUsage = false;
  return lines.filter((line) => {
    const npm = /^npm (?:error|ERR!) ?(.*)$/.exec(line)?.[1];
    if (npm === undefined || /^(?:Run "npm help|A complete log)/.test(npm)) isUsage = false;
    else if (npm === "Usage:") isUsage = true;
    return !isUsage;
  });
}
