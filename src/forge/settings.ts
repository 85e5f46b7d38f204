/** How we sign in to GitHub; the values are secret. */
export type GitHubCredential =
  | { readonly kind: "token"; readonly token: string }
  | {
      readonly kind: "app";
      readonly appId: string;
      readonly privateKey: string;
      /** Signs the App's webhooks; absent if somebody else keeps it. */
      readonly webhookSecret?: string | undefined;
    };

export interface GitHubSettings {
  /** The address of the REST API, without a slash at its end. */
  readonly apiUrl: string;
  /** The address of pages and of git, without a slash at its end. */
  readonly webUrl: string;
  /**
   * Returns the credential to use now; null: nobody has signed in. Returns the same object until it
   * changes. Fails with `unauthorized` if it cannot be read.
   */
  readonly credential: () => GitHubCredential | null;
}
