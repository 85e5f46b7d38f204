export const views = ["timeline", "board"] as const;
export const taskParts = ["changes", "instructions", "attempts", "terminal"] as const;

/** What a build's page shows. It is in the page's address, so that links can be shared. */
export interface BuildSearch {
  /** The graph without it. */
  readonly view?: (typeof views)[number];
  /** The selected task. */
  readonly task?: string;
  /** The part of the task's panel; its activity without it. */
  readonly part?: (typeof taskParts)[number];
  /** The attempt whose activity is shown; by default the task's last. */
  readonly attempt?: number;
  /** The selected gate run. */
  readonly gate?: string;
}

type Before = Readonly<Pick<{ [Name in keyof BuildSearch]: BuildSearch[Name] | undefined }, "view" | "part">>;

/** Closes the panel, and keeps the view. */
export const withNothing = ({ view }: Before): BuildSearch => (view === undefined ? {} : { view });

/** Selects a task. The panel stays at its part, so that a reader can go through the changes of all. */
export const withTask =
  (task: string) =>
  ({ view, part }: Before): BuildSearch => ({
    ...(view === undefined ? {} : { view }),
    ...(part === undefined ? {} : { part }),
    task,
  });

/** Selects a gate run. */
export const withGate =
  (gate: string) =>
  (before: Before): BuildSearch => ({ ...withNothing(before), gate });
