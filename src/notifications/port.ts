import type { NoticeFacts } from "../domain/events/notices.ts";

/** The result of one try. Its text is for people and contains no secret. */
export type TryResult =
  | { readonly sent: true }
  | {
      readonly sent: false;
      readonly problem: string;
      /** The receiver wants no more of them (410). */
      readonly isFinal: boolean;
      /** When the receiver asks to be tried again; null if it does not say. */
      readonly retryAfterMs: number | null;
    };

/** The tenant whose plan names an address. */
export interface NoticeSender {
  readonly name: string;
  /** Whether it is this installation's own, which may mail anybody unless the settings limit it. */
  readonly isDefault: boolean;
}

export interface Notifier {
  /** Tries once to send a notice to a plan's address. Never throws. */
  send(address: string, notice: NoticeFacts, sender: NoticeSender): Promise<TryResult>;
}
