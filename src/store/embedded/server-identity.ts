/**
 * The user that runs Postgres. `switched`: we are root and become that user, because
 * Postgres refuses root.
 */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
  readonly switched: boolean;
}
