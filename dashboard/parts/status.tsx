import { isMoving, toneOf, toneOfSeverity } from "./tones.ts";

/** A status as a word with its colour. */
export function StatusBadge({ status, label = status }: { readonly status: string; readonly label?: string }) {
  return (
    <span className="badge" data-tone={toneOf(status)}>
      <span className="dot" data-moving={isMoving(status) || undefined} />
      {label}
    </span>
  );
}

/** A status as a coloured dot, with the word for screen readers. */
export function StatusDot({ status }: { readonly status: string }) {
  return (
    <span className="row" data-tone={toneOf(status)} title={status}>
      <span className="dot" data-moving={isMoving(status) || undefined} />
      <span className="hidden">{status}</span>
    </span>
  );
}

export function SeverityBadge({ severity }: { readonly severity: string }) {
  return (
    <span className="badge" data-tone={toneOfSeverity(severity)}>
      {severity}
    </span>
  );
}
