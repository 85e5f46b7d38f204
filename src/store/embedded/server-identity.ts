/**
 * The user Postgres runs as. `switched`: we are root and become that user, since Postgres refuses
 * root.
 */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
  readonly switched: boolean;
}
