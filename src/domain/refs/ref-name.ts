/** Whether git takes this as a full ref name (git-check-ref-format(1)). */
export function isRefName(ref: string): boolean {
  if (!/^refs\/[^/]+\/./.test(ref) || ref.endsWith("/") || ref.endsWith(".") || ref.length > 1024) return false;
  if (/[\x00-\x20\x7f~^:?*[\\]/.test(ref) || ref.includes("..") || ref.includes("@{")) return false;
  return ref.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));
}
