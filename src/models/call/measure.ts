/** The size of a request in tokens, before anything has counted them. */
export interface Measured {
  /** The upper bound. */
  readonly worstTokens: number;
  /** The likely size, used when the provider never reports one. */
  readonly likelyTokens: number;
  /** Whether the request caches something for an hour, which costs more than the usual minutes. */
  readonly keepsLong: boolean;
}

/** The keys of images and files, which cost far fewer tokens than their bytes suggest. */
const attachmentKeys = new Set(["data", "url", "image_url", "file_data"]);
/** Keys that only the provider can read, such as encrypted thoughts. */
const opaqueKeys = new Set(["encrypted_content", "signature", "thoughtSignature", "thought_signature"]);
const attachment = /^(data:[^,]+,)?[A-Za-z0-9+/=\s]+$/;

const worstAttachmentTokens = 10_000;
const usualAttachmentTokens = 1_600;

/** A token is rarely less than two bytes of JSON, and usually about four. */
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
    // The same key may hold text, which is marked as text.
    if (!attachmentKeys.has(key) || this.type === "text" || !attachment.test(value)) return value;
    worst += worstAttachmentTokens + value.length / 100;
    likely += usualAttachmentTokens;
    return "";
  });
  const sizeBytes = Buffer.byteLength(text);
  const [worstTokens, likelyTokens] = [Math.ceil(worst + sizeBytes / 2), Math.ceil(likely + sizeBytes / 4)];
  return { worstTokens, likelyTokens, keepsLong: text.includes('"ttl":"1h"') };
}

/** Estimates the tokens of this much answer text. */
export const likelyTokens = (sizeBytes: number): number => Math.ceil(sizeBytes / 4);
