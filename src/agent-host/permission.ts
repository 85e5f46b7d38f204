import { realpathSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";

/** An action that an agent asks permission for. */
export interface PermissionRequest {
  readonly action: string;
  /** As the agent wrote them; relative paths start at the tree. */
  readonly paths: readonly string[];
}

export interface Policy {
  readonly tree: string;
  readonly home: string;
  readonly readable: readonly string[];
  readonly readOnly: boolean;
}

export interface PermissionDecision {
  readonly allowed: boolean;
  readonly reason: string;
  /** Whether a person may allow it although the policy does not. */
  readonly askable?: boolean;
}

const changing = new Set(["edit", "delete", "move"]);
const allowedInSandbox = "allowed in the sandbox";

/**
 * Decides whether an action may be done, once. Changes are allowed only in the tree, and never for
 * a role that only reads. Commands are confined by the sandbox, not by this check.
 */
export function decidePermission({ action, paths }: PermissionRequest, policy: Policy): PermissionDecision {
  const writes = changing.has(action);
  if (action === "switch_mode") return { allowed: false, reason: "only Wavesmith chooses its mode" };
  if (writes && policy.readOnly) return { allowed: false, reason: "this role changes nothing" };
  // Claude Code names the paths outside its tree that a command reads.
  if (action === "execute") return { allowed: true, reason: allowedInSandbox };
  const roots = writes ? [policy.tree] : [policy.tree, policy.home, ...policy.readable];
  for (const path of paths) {
    const target = real(isAbsolute(path) ? path : resolve(policy.tree, path));
    if (target === null || !roots.some((root) => isWithin(target, root))) {
      const where = writes ? "its tree" : "what it may read";
      return { allowed: false, reason: `${path} is outside ${where}`, askable: true };
    }
  }
  if (writes && paths.some((path) => isGit(resolve(policy.tree, path), policy.tree)))
    return { allowed: false, reason: "files in .git must not be changed" };
  return { allowed: true, reason: writes ? "in its tree" : allowedInSandbox };
}

function isWithin(path: string, root: string): boolean {
  const way = relative(real(root) ?? root, path);
  return way === "" || (!way.startsWith("..") && !isAbsolute(way));
}

const isGit = (path: string, tree: string): boolean => relative(tree, path).split("/")[0] === ".git";

/** Resolves a path, following the links of its existing part; null when that fails. */
function real(path: string): string | null {
  let existing = path;
  let rest = "";
  for (;;) {
    try {
      return join(realpathSync(existing), rest);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || dirname(existing) === existing) return null;
      rest = join(existing.slice(dirname(existing).length), rest);
      existing = dirname(existing);
    }
  }
}
