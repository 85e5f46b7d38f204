/** Git's own folder, even as file systems that fold case or drop characters would read it. */
const gitFolder = /^(\.git|git~\d+)[ .]*$/i;

/** Why text from outside is not the path of a file in a tree; null if it is. */
export function filePathFault(path: string): string | null {
  if (Buffer.byteLength(path) > 4_096) return "is longer than 4096 bytes";
  if (/[\0-\x1f\x7f\\]/.test(path)) return "contains a control character or a backslash";
  const parts = path.split("/");
  if (parts.some((part) => part === "")) return "begins or ends with a slash, or has two in a row";
  if (parts.some((part) => part === "." || part === "..")) return "contains . or ..";
  if (parts.some((part) => gitFolder.test(part.replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, ""))))
    return "leads into .git";
  return null;
}
