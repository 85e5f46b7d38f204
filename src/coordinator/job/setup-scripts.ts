import { setupRecord } from "../../workspace/port.ts";

// Shell scripts for the stages that set up a tree and save the result.

// Records the files that setup left, before the agent starts, so that keeping the tree does not
// count them as the attempt's work. If git cannot record them, there is no record.
const recordScript = `
base=$(git rev-parse -q --verify HEAD) || base=
record() {
  [ -n "$base" ] || return 0
  index=$PWD/.git/wavesmith-setup.index
  cp -p .git/index "$index"
  GIT_INDEX_FILE=$index git add -A --ignore-errors || :
  GIT_INDEX_FILE=$index git diff-index --cached --raw -z --no-renames --no-abbrev "$base" > "$index.diff"
  mv "$index.diff" ${setupRecord}
}`;

/**
 * Args: setup, the cache entry or nothing. An entry may be deleted while it is copied, to make room
 * on the volume.
 */
export const restoreScript = `run=$1 entry=$2
${recordScript}
fits() {
  if [ -z "$entry" ] || [ ! -e "$entry/complete" ]; then return 1; fi
  if [ ! -s "$entry/changed" ]; then return 0; fi
  xargs -0 git --literal-pathspecs ls-tree -r -z --full-tree HEAD -- < "$entry/changed" > .git/wavesmith-before
  [ "$(cksum < .git/wavesmith-before)" = "$(cksum < "$entry/before")" ]
}
if fits && cp -a --reflink=auto "$entry/files/." .; then
  if [ -s "$entry/removed" ]; then xargs -0 rm -f -- < "$entry/removed"; fi
  echo "set up from the cache"
else
  sh -e -c "$run" || exit $?
fi
record 2> /dev/null || :`;

/** Args: a description of the missing files. */
export const skipScript = `echo "setup is skipped: $1"`;

/**
 * Args: setup, entry, restoreScript. The second task waits and then finds the tree set up. The lock
 * ends with its holder, and setup's own processes do not inherit it. If setup fails, the next task
 * tries again.
 */
export const sharedSetupScript = `run=$1 entry=$2 restore=$3
command -v flock > /dev/null || { echo "tasks that share a tree need flock (util-linux) in the sandbox" >&2; exit 1; }
mkdir -p .git
exec 9> .git/wavesmith-setup.lock
flock 9
if [ -e .git/wavesmith-setup-done ]; then echo "set up by another task of this wave"; exit 0; fi
sh -e -c "$restore" restore "$run" "$entry" 9>&-
: > .git/wavesmith-setup-done`;

/**
 * Args: entry. Saves the files that setup made and changed, and the changed files' old content
 * (SC5). Refuses files that name the folder they were made in, such as the scripts of a virtual
 * environment. Makes files readable for all, because each job may have its own user.
 */
export const saveScript = `set -e
entry=$1
refuse() { echo "not cached: $1"; find "$entry" -mindepth 1 -delete; : > "$entry/refused"; exit 0; }
find "$entry" -mindepth 1 -delete
mkdir "$entry/files"
index=$PWD/.git/wavesmith-setup.index
cp -p .git/index "$index"
differing() { GIT_INDEX_FILE=$index git diff-index --cached --no-renames "$@" HEAD; }
GIT_INDEX_FILE=$index git add -A
inner=$(differing --raw | sed -n 's/^:[0-7]* 160000 .*\\t//p')
if [ -n "$inner" ]; then refuse "setup made a git repository in the tree: $inner"; fi
differing --name-only -z > "$entry/changed"
differing --name-only -z --diff-filter=D > "$entry/removed"
if [ -s "$entry/changed" ]; then
  xargs -0 git --literal-pathspecs ls-tree -r -z --full-tree HEAD -- < "$entry/changed" > "$entry/before"
fi
{
  git ls-files -z --others --ignored --exclude-standard --directory --no-empty-directory
  differing --name-only -z --diff-filter=d
} > "$entry/list"
tar --null -cf - -T "$entry/list" | tar -xf - -C "$entry/files"
fixed() {
  find "$entry/files" -type l -lname "$PWD/*" -print
  find "$entry/files" -type f \\( -perm -u+x -o -name 'activate*' -o -name pyvenv.cfg \\
    -o -name '*.pth' -o -name '*.egg-link' -o -name '__editable__*' \\) -exec grep -lIF -e "$PWD" {} + || :
}
named=$(fixed | head -n 1)
if [ -n "$named" ]; then refuse "\${named#"$entry/files/"} works only in the folder that it was made in"; fi
chmod -R a+rX "$entry"
sync -f "$entry"
: > "$entry/complete"`;
