/** What one benchmark found. Times in ms, memory in MB (10^6 bytes). */
export interface Finding {
  readonly what: string;
  readonly ours: number;
  readonly unit: "ms" | "MB" | "tasks" | "updates" | "statements";
  /**
   * What ours is compared with, measured in the same rounds; null: the target is a number of its
   * own.
   */
  readonly floor: { readonly what: string; readonly value: number } | null;
  /**
   * The most it may be: a multiple of the floor when there is one, else in the unit; null: only
   * told.
   */
  readonly limit: number | null;
}

export interface RunOptions {
  /** One tiny round that shows the benchmark works; its figures mean nothing. */
  readonly smoke: boolean;
  /** Sizes that take many minutes, too. */
  readonly large: boolean;
}

export interface Benchmark {
  readonly name: string;
  /** What it measures, in one line. */
  readonly about: string;
  run(options: RunOptions): Promise<readonly Finding[]>;
}
