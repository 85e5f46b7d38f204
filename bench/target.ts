/** One measurement. Times are in ms, memory is in MB (10^6 bytes). */
export interface Finding {
  readonly what: string;
  readonly ours: number;
  readonly unit: "ms" | "MB" | "%" | "tasks" | "updates" | "statements" | "places";
  /** The baseline, measured in the same rounds; null if the target is an absolute number. */
  readonly floor: { readonly what: string; readonly value: number } | null;
  /** The target: a multiple of the baseline if there is one, otherwise in `unit`; null: none. */
  readonly limit: number | null;
}

export interface RunOptions {
  /** Runs one tiny round, to check that the benchmark works; its figures mean nothing. */
  readonly smoke: boolean;
  /** Includes sizes that take many minutes. */
  readonly large: boolean;
}

export interface Benchmark {
  readonly name: string;
  /** One line that says what it measures. */
  readonly about: string;
  run(options: RunOptions): Promise<readonly Finding[]>;
}
