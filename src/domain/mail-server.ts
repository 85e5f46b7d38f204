/** The server that sends mail. */
export interface MailServer {
  /** `smtps` is TLS from the start; `smtp` switches to TLS with STARTTLS. */
  readonly protocol: "smtp" | "smtps";
  readonly host: string;
  readonly port: number;
  readonly user: string | null;
  readonly password: string | null;
  readonly from: string;
  /** Addresses and domains that plans may send to; null: any. */
  readonly allowed: readonly string[] | null;
}
