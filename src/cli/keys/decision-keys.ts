import type { BuildView } from "../../coordinator/build/build-view.ts";
import { createLetterReader, type KeySource, type LetterReaderParts } from "./letter-reader.ts";

/** The decisions a person can make about a build that waits or has failed. */
export type KeyedDecision = { readonly is: "approve" | "retry" } | { readonly is: "reject"; readonly reason: string };

interface DecisionParts extends LetterReaderParts {
  readonly say: (text: string) => void;
  /** Ends the question without a decision. */
  readonly signal: AbortSignal;
}

const letters = { approve: "a", reject: "r", retry: "t" } as const;

/** Lists the decisions that a build asks for now. */
export function openDecisions({ build, waves }: BuildView): readonly KeyedDecision["is"][] {
  if (build.status === "failed") return ["retry"];
  return build.status === "waiting" && waves.at(-1)?.status === "waiting" ? ["approve", "reject"] : [];
}

/** Asks for one of these decisions, and for the reason of a rejection; null if nobody decided. */
export function askDecision(
  keys: KeySource,
  open: readonly KeyedDecision["is"][],
  { say, signal, ...parts }: DecisionParts,
): Promise<KeyedDecision | null> {
  return new Promise((resolve) => {
    const finish = (decision: KeyedDecision | null): void => {
      reader.close();
      resolve(decision);
    };
    const reader = createLetterReader(keys, parts);
    const askReason = (): void => {
      say("what has to be different? (Enter sends it, Ctrl-C leaves the build as it is)");
      reader.ask({ name: "reason", letters: "any", answer: (reason) => finish({ is: "reject", reason }) });
    };
    signal.addEventListener("abort", () => finish(null), { once: true });
    say(`${open.map((is) => `${letters[is]} and Enter: ${is}`).join("  ")}  Ctrl-C: leave it`);
    reader.ask({
      name: "decision",
      letters: open.map((is) => letters[is]),
      answer(letter) {
        const is = open.find((candidate) => letters[candidate] === letter)!;
        if (is === "reject") askReason();
        else finish({ is });
      },
    });
    if (signal.aborted) finish(null);
  });
}
