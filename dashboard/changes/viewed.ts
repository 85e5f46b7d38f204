import { useState } from "react";

const mostKept = 2_000;

/**
 * The files that the reader has marked as viewed, stored in this browser. A file that changes loses
 * its mark.
 */
export function useViewed(buildId: string) {
  const key = `wavesmith-viewed ${buildId}`;
  const [names, setNames] = useState<readonly string[]>(() => stored(key));
  return {
    has: (name: string): boolean => names.includes(name),
    toggle(name: string): void {
      const next = names.includes(name) ? names.filter((one) => one !== name) : [...names, name].slice(-mostKept);
      setNames(next);
      localStorage.setItem(key, JSON.stringify(next));
    },
  };
}

function stored(key: string): string[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
  } catch {
    return []; // Not ours, or cut off.
  }
}
