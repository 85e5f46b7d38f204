/** How large a request is, in tokens that nobody has counted yet. */
export interface Measured {
  /** It cannot be more. */
  readonly worstTokens: number;
  /** What it most likely is: what counts when its provider never says. */
  readonly likelyTokens: number;
  /** It asks for something to be kept for an hour, which costs more than the usual minutes. */
  readonly keepsLong: boolean;
}

/** Where pictures and files stand, which count far less than their bytes. */
const attachmentKeys = new Set(["data", "url", "image_url", "file_data"]);
/** What only its provider can read: what a model thought, encrypted. */
const opaqueKeys = new Set(["encrypted_content", "signature", "thoughtSignature", "thought_signature"]);
const attachment = /^(data:[^,]+,)?[A-Za-z0-9+/=\s]+$/;

const worstAttachmentTokens = 10_000;
const usualAttachmentTokens = 1_600;

/** A token is hardly ever less than two bytes of JSON, and mostly about four. */
export function measureRequest(body: unknown): Measured {
  let worst = 0;
  let likely = 0;
  const text = JSON.stringify(body, function (this: { type?: unknown }, key, value: unknown) {
    if (typeof value !== "string" || value.length < 4_096) return value;
    if (opaqueKeys.has(key)) {
      worst += value.length / 4;
      likely += value.length / 6;
      return "";
    }
    // Text may stand in the same place, and says that it is text.
    if (!attachmentKeys.has(key) || this.type === "text" || !attachment.test(value)) return value;
    worst += worstAttachmentTokens + value.length / 100;
    likely += usualAttachmentTokens;
    return "";
  });
  const sizeBytes = Buffer.byteLength(text);
  const [worstTokens, likelyTokens] = [Math.ceil(worst + sizeBytes / 2), Math.ceil(likely + sizeBytes / 4)];
  return { worstTokens, likelyTokens, keepsLong: text.includes('"ttl":"1h"') };
}

/** What so much text of an answer most likely is. */
export const likelyTokens = (sizeBytes: number): number => Math.ceil(sizeBytes / 4);
