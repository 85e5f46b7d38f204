/** When builds start by the clock. */
export interface ScheduleTimes {
  /** Minute, hour, day of month, month, day of week. */
  readonly cron: string;
  /** A name such as `Europe/Paris`. */
  readonly timezone: string;
}

/** The data of the request for a scheduled build. */
export interface StandingRequest {
  readonly plan?: unknown;
  readonly brief?: string;
  readonly budget?: unknown;
  readonly yes?: boolean;
}

/** After this many failures in a row a schedule is paused. */
export const failuresToPause = 3;
/** The file in a repository that says what starts builds there. */
export const standingFileName = "wavesmith.yaml";
