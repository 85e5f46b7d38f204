import type { Command } from "commander";

// Completion scripts for shells, made from the command line itself.

export const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

/** A command with the words that can follow it. */
interface Place {
  /** Names from the first command on; empty for `wavesmith` alone. */
  readonly path: readonly string[];
  readonly commands: readonly Word[];
  readonly options: readonly (Word & { readonly takesValue: boolean })[];
}

interface Word {
  readonly name: string;
  readonly description: string;
}

/** Returns the script that makes a shell complete the words of `wavesmith`. */
export function completionScript(shell: Shell, program: Command): string {
  const places = placesOf(program, []);
  const make = { bash: bashScript, zsh: zshScript, fish: fishScript };
  return make[shell](places);
}

function placesOf(command: Command, path: readonly string[]): Place[] {
  const help = command.createHelp();
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)];
  const commands = help.visibleCommands(command);
  const place: Place = {
    path,
    commands: commands.map((each) => ({ name: each.name(), description: each.description() })),
    options: options.flatMap(({ long, description, required }) =>
      long == null ? [] : [{ name: long, description, takesValue: required }],
    ),
  };
  // `help` takes the names of the others.
  const inner = commands.filter((each) => each.name() !== "help");
  return [place, ...inner.flatMap((each) => placesOf(each, [...path, each.name()]))];
}

const wordsOf = ({ commands, options }: Place): string[] => [...commands, ...options].map(({ name }) => name);
const valueOptions = (places: readonly Place[]): string[] => [
  ...new Set(places.flatMap(({ options }) => options.filter(({ takesValue }) => takesValue).map(({ name }) => name))),
];
const namesOf = (places: readonly Place[]): string[] => places.slice(1).map(({ path }) => path.join(" "));

/** Finds the command of a line: words that are neither options nor their values, while known. */
const findPlace = (places: readonly Place[]): string => `
  local place="" word skip=""
  for word in "\${before[@]}"; do
    if [ -n "$skip" ]; then skip=""; continue; fi
    case $word in
      ${valueOptions(places).join("|")}) skip=1; continue ;;
      -*) continue ;;
    esac
    case "\${place:+$place }$word" in
      ${namesOf(places)
        .map((name) => `"${name}"`)
        .join("|")}) place="\${place:+$place }$word" ;;
    esac
  done`;

function bashScript(places: readonly Place[]): string {
  const cases = places.map((place) => `    "${place.path.join(" ")}") words="${wordsOf(place).join(" ")}" ;;`);
  return `# bash completion of wavesmith: source <(wavesmith completion bash)
_wavesmith() {
  local current=\${COMP_WORDS[COMP_CWORD]} words=""
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")${findPlace(places)}
  COMPREPLY=()
  if [ -n "$skip" ]; then COMPREPLY=($(compgen -f -- "$current")); return; fi
  case $place in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  # Plans and folders.
  if [ \${#COMPREPLY[@]} = 0 ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _wavesmith wavesmith
`;
}

function zshScript(places: readonly Place[]): string {
  const entry = ({ name, description }: Word): string => zshQuoted(`${name.replaceAll(":", "\\:")}:${description}`);
  const cases = places.map(
    (place) =>
      `    "${place.path.join(" ")}") words_here=(${[...place.commands, ...place.options].map(entry).join(" ")}) ;;`,
  );
  return `#compdef wavesmith
# zsh completion of wavesmith: source <(wavesmith completion zsh)
_wavesmith() {
  local -a before words_here
  before=("\${(@)words[2,CURRENT-1]}")${findPlace(places)}
  if [ -n "$skip" ]; then _files; return; fi
  case $place in
${cases.join("\n")}
  esac
  _describe -t words wavesmith words_here || _files
}
compdef _wavesmith wavesmith
`;
}

const zshQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, options }) => {
    const here = `__wavesmith_at ${fishQuoted(path.join(" "))}`;
    const base = `complete -c wavesmith -n ${fishQuoted(here)}`;
    return [
      ...commands.map(({ name, description }) => `${base} -f -a ${name} -d ${fishQuoted(description)}`),
      ...options.map(
        ({ name, description, takesValue }) =>
          `${base} -l ${name.slice(2)}${takesValue ? " -r" : ""} -d ${fishQuoted(description)}`,
      ),
    ];
  });
  return `# fish completion of wavesmith: wavesmith completion fish | source
function __wavesmith_at
  set -l place ""
  set -l skip ""
  for word in (commandline -opc)[2..]
    if test -n "$skip"
      set skip ""
      continue
    end
    switch $word
      case ${valueOptions(places).join(" ")}
        set skip 1
      case '-*'
      case '*'
        set -l longer (string trim "$place $word")
        if contains -- $longer ${namesOf(places).map(fishQuoted).join(" ")}
          set place $longer
        end
    end
  end
  test "$place" = "$argv[1]"
end
${lines.join("\n")}
`;
}

const fishQuoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
