import { itemAt } from "../../domain/known.ts";
/** Returns `, did you mean X?` for the nearest known word, or nothing when none is near. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const plain = (text: string): string => text.toLowerCase().replace(/[-_ ]/g, "");
  const limit = Math.min(2, Math.floor(word.length / 3) + 1);
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) > limit + 1) continue;
    const distance = plain(candidate) === plain(word) ? 0 : editDistance(word, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best === null ? "" : `, did you mean ${best}?`;
}

/** Counts insertions, deletions and substitutions between two words. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const change = itemAt(row, j - 1) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next[j] = Math.min(change, itemAt(row, j) + 1, itemAt(next, j - 1) + 1);
    }
    row = next;
  }
  return itemAt(row, to.length);
}
