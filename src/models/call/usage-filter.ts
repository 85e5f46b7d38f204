/** Relays a chat's stream without its usage event; holds back less than a line. */
export function createUsageFilter(): (chunk: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0);
  let skipsEmptyLine = false;
  return (chunk) => {
    const lines: Buffer[] = [];
    let all = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = all.indexOf(10); end >= 0; end = all.indexOf(10)) {
      const line = all.subarray(0, end + 1);
      all = all.subarray(end + 1);
      const text = line.length > maxUsageLine ? "" : line.toString("utf8").trim();
      const isUsage = isUsageEvent(text);
      if (!isUsage && !(skipsEmptyLine && line.length <= 2)) lines.push(line);
      skipsEmptyLine = isUsage;
    }
    rest = all;
    return Buffer.concat(lines);
  };
}

const maxUsageLine = 16 * 1024;

/** Whether a line is the usage event, which has no choices. */
const isUsageEvent = (line: string): boolean =>
  line.startsWith("data:") && /"choices"\s*:\s*\[\s*\]/.test(line) && /"usage"\s*:\s*\{/.test(line);
