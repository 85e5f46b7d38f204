import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import type { HostFacts } from "./machine.ts";

/** Finds a program by name or path in PATH, then in the system folders; null when absent. */
export function findProgram(name: string, PATH: string): string | null {
  if (isAbsolute(name)) return name;
  for (const folder of [...PATH.split(delimiter), "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]) {
    const file = join(folder, name);
    if (isAbsolute(folder) && isExecutable(file)) return file;
  }
  return null;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Returns the command that installs a package on this system. */
export function installCommand(name: string, { osRelease, isRoot }: HostFacts): string {
  const family = [...osRelease.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)/gm)].map((found) => found[1]).join(" ");
  const sudo = isRoot ? "" : "sudo ";
  if (/debian|ubuntu/.test(family)) return `${sudo}apt-get install ${name}`;
  if (/fedora|rhel|centos/.test(family)) return `${sudo}dnf install ${name}`;
  if (/alpine/.test(family)) return `${sudo}apk add ${name}`;
  if (/arch/.test(family)) return `${sudo}pacman -S ${name}`;
  if (/suse/.test(family)) return `${sudo}zypper install ${name}`;
  return `install the package ${name}`;
}
