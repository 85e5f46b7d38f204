/** An error answer of the guest: an HTTP status, a stable code and a sentence. */
export class GuestFault extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "GuestFault";
    this.status = status;
    this.code = code;
  }
}

/** Returns the system's error code (`ENOENT`, …) of anything thrown; null when it has none. */
export function systemCode(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : null;
}

/** Returns the message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const faultsBySystemCode: Readonly<Record<string, readonly [number, string]>> = {
  ENOSPC: [507, "no-space"],
  EDQUOT: [507, "no-space"],
  EFBIG: [507, "no-space"],
  EAGAIN: [503, "no-process"],
  ENOENT: [404, "not-found"],
  EACCES: [403, "forbidden"],
  EPERM: [403, "forbidden"],
  EROFS: [403, "forbidden"],
  ENOTDIR: [400, "path"],
  ELOOP: [400, "path"],
  ENAMETOOLONG: [400, "path"],
  EISDIR: [409, "is-directory"],
  ENOTEMPTY: [409, "not-empty"],
  EEXIST: [409, "exists"],
};

/** Turns anything thrown while answering a request into a fault. */
export function faultOf(error: unknown): GuestFault {
  if (error instanceof GuestFault) return error;
  const [status, code] = faultsBySystemCode[systemCode(error) ?? ""] ?? [500, "internal"];
  return new GuestFault(status, code, messageOf(error));
}
