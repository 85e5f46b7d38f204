/**
 * Runs each way once per round, in turn, so that what else the machine does hits all alike; returns
 * each one's median in ms.
 */
export async function interleaved<Name extends string>(
  rounds: number,
  ways: Readonly<Record<Name, () => Promise<number | undefined> | Promise<void>>>,
): Promise<Record<Name, number>> {
  const names = Object.keys(ways) as Name[];
  const times = new Map<Name, number[]>(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    // The order alternates: neither way always comes after the other.
    for (const name of round % 2 === 0 ? names : [...names].reverse()) times.get(name)!.push(await timed(ways[name]));
  }
  return Object.fromEntries(names.map((name) => [name, median(times.get(name)!)])) as Record<Name, number>;
}

/** How long it took in ms, or what it says itself that it took. */
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
 * Which part of a processor a busy loop gets here now, from 0 to 1: below 1 other work takes the
 * rest, and times of their own (not ratios) are longer than they would be on a machine at rest.
 */
export function processorShare(): number {
  const begun = performance.now();
  const before = process.cpuUsage();
  while (performance.now() - begun < 300);
  const { user, system } = process.cpuUsage(before);
  return Math.min(1, (user + system) / 1_000 / (performance.now() - begun));
}
