/** How we sign in at GitHub; the values are secret. */
export type GitHubCredential =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "app"; readonly appId: string; readonly privateKey: string };

export interface GitHubSettings {
  /** The address of the REST API, without a slash at its end. */
  readonly apiUrl: string;
  /** The address of pages and of git, without a slash at its end. */
  readonly webUrl: string;
  /** Null: nobody has signed in. */
  readonly credential: GitHubCredential | null;
}
