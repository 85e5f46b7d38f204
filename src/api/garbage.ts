/** One thing that has outlived its retention setting. */
export interface GarbageItem {
  readonly kind: "build" | "output" | "branches" | "volume" | "snapshot" | "upload";
  /** The name of the project. */
  readonly project: string;
  /** The id of the build, sandbox, snapshot or upload. */
  readonly id: string;
  /** The disk space that it takes; null if only its driver knows. */
  readonly bytes: number | null;
}

/** A removal of old data, or with `dryRun` what would go. */
export interface Removal {
  readonly dryRun: boolean;
  readonly bytes: number;
  readonly items: readonly GarbageItem[];
}

/** Sums up what was removed or would be. */
export function removalOf(garbage: readonly GarbageItem[], { dryRun }: { readonly dryRun: boolean }): Removal {
  const items = garbage.map(({ kind, project, id, bytes }) => ({ kind, project, id, bytes }));
  return { dryRun, bytes: items.reduce((sum, one) => sum + (one.bytes ?? 0), 0), items };
}
