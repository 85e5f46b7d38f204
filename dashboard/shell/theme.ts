import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";
const key = "wavesmith-theme";
const listeners = new Set<() => void>();

function current(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

/** Shows the theme that the reader chose before; otherwise the system's. */
export function restoreTheme(): void {
  const chosen = localStorage.getItem(key);
  if (chosen !== null) document.documentElement.dataset.theme = chosen;
}

export function toggleTheme(): void {
  const next = current() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(key, next);
  for (const listener of listeners) listener();
}

export const useTheme = (): Theme =>
  useSyncExternalStore((listener) => {
    listeners.add(listener);
    const media = matchMedia("(prefers-color-scheme: light)");
    media.addEventListener("change", listener);
    return () => {
      listeners.delete(listener);
      media.removeEventListener("change", listener);
    };
  }, current);
