/**
 * Runs each variant once per round, alternately, so that other load on the machine affects all of
 * them equally. Returns each one's median in ms.
 */
export async function interleaved<Name extends string>(
  rounds: number,
  ways: Readonly<Record<Name, () => Promise<number | undefined> | Promise<void>>>,
): Promise<Record<Name, number>> {
  const names = Object.keys(ways) as Name[];
  const times = new Map<Name, number[]>(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    // Alternate the order, so that no variant always comes second.
    for (const name of round % 2 === 0 ? names : [...names].reverse()) times.get(name)!.push(await timed(ways[name]));
  }
  return Object.fromEntries(names.map((name) => [name, median(times.get(name)!)])) as Record<Name, number>;
}

/** Returns the elapsed time in ms, or the time that `work` itself returns. */
async function timed(work: () => Promise<number | undefined> | Promise<void>): Promise<number> {
  const begun = performance.now();
  const said = await work();
  return said ?? performance.now() - begun;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Returns the share of a processor that a busy loop gets, from 0 to 1. Below 1 other programs use
 * the rest, and absolute times (not ratios) are longer than on an idle machine.
 */
export function processorShare(): number {
  const begun = performance.now();
  const before = process.cpuUsage();
  while (performance.now() - begun < 300);
  const { user, system } = process.cpuUsage(before);
  return Math.min(1, (user + system) / 1_000 / (performance.now() - begun));
}
