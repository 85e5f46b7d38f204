import type { ReactNode } from "react";
import { Key } from "./key.tsx";

interface ActionButtonProps<Given> {
  readonly action: { readonly isPending: boolean; mutate(given: Given): void };
  readonly given: Given;
  readonly tone?: "primary" | "danger";
  /** Its name for screen readers, where the text alone does not say what it acts on. */
  readonly label?: string;
  /** The key that does the same. */
  readonly keys?: string;
  readonly children: ReactNode;
}

/** A button that does something on the server. It is off until the server has answered. */
export function ActionButton<Given>({ action, given, tone, label, keys, children }: ActionButtonProps<Given>) {
  return (
    <button
      type="button"
      className={tone === undefined ? "button" : `button ${tone}`}
      aria-label={label}
      aria-keyshortcuts={keys}
      disabled={action.isPending}
      onClick={() => action.mutate(given)}
    >
      {children}
      {keys !== undefined && <Key name={keys} />}
    </button>
  );
}
