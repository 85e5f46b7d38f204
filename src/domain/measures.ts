/** One number with its labels, as Prometheus and other monitors take it. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One quantity: its name in base units (seconds, bytes, USD), its help and its samples. */
export interface Measure {
  readonly name: string;
  /** A counter only grows within one process; a gauge goes up and down. */
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
}

/** Creates a gauge without labels. */
export const gauge = (name: string, help: string, value: number): Measure => ({
  name,
  type: "gauge",
  help,
  samples: [{ labels: {}, value }],
});
