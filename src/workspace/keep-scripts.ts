import { lacksCommit, machineBoot, makeRepository } from "./volume-scripts.ts";

// Shell text that commits a tree without trusting it. Nothing of the tree's `.git` is used but its
// index, as data: git runs on a repository of ours in the keep folder, which borrows the objects of
// `repo`. Arguments of all: tree, keep folder, a name for what this call makes there. Facts are
// printed as `key NUL value NUL`.

/** A file above this is not kept: forges refuse it, and every clone would carry it for ever. */
export const largestFileBytes = 50 * 1024 * 1024;

/**
 * What an attempt changes may have this many bytes, holes of sparse files included: whoever checks
 * it out writes them all.
 */
export const largestTreeBytes = 4 * 1024 * 1024 * 1024;
/** Smaller files are not weighed. */
const weighedFrom = 64 * 1024;

/** The exit code when there is no tree where it should be. */
export const lacksTree = 5;

const prelude = `set -eu
keep=$PWD/$2 mine=$PWD/$2/$3
if [ -L "$1" ] || ! cd "$1" 2> /dev/null; then echo "there is no tree at $1" >&2; exit ${lacksTree}; fi
# The guest makes a folder that a command may write: with nothing in it at all it is a tree that is lost.
if [ ! -e .git ] && [ -z "$(ls -A)" ]; then echo "there is nothing at $1" >&2; exit ${lacksTree}; fi
if [ -e "$keep/git/base" ] && [ ! -s "$keep/git/base" ]; then echo "$1 was never opened to the end" >&2; exit ${lacksTree}; fi
tree=$PWD
export GIT_DIR="$keep/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$mine.index"
facts() { xargs -0 sh -c 'for path; do printf "%s\\0%s\\0" "$0" "$path"; done' "$1"; }
prefixed() { tr '\\n\\0' '\\0\\n' | sed "s,^,$1," | tr '\\n\\0' '\\0\\n'; }
# Below the tree, so that no name is taken for an option; one process a thousand names, not one a name.
named_below() { prefixed ./; }
left_over() { git ls-files -z -o -m --exclude-standard | facts left; }
`;

// What an agent added with `add -f`, or committed, although a rule ignores it.
const addForced = `
add_forced() {
  index=$tree/.git/index
  if [ ! -f "$index" ] || [ -L "$index" ]; then return 0; fi
  if [ -e "$tree/.git/wavesmith-opened" ] && [ ! "$index" -nt "$tree/.git/wavesmith-opened" ]; then return 0; fi
  GIT_INDEX_FILE=$index git ls-files -z -c -i --exclude-standard > "$mine.forced" 2> /dev/null || return 0
  if [ ! -s "$mine.forced" ]; then return 0; fi
  named_below < "$mine.forced" | xargs -0 sh -c '
    find "$@" -maxdepth 0 \\( -type l -o -type f ! -size +${largestFileBytes}c \\) -print0 2> /dev/null || :
    ' wavesmith > "$mine.forced.files"
  git update-index --add -z --stdin < "$mine.forced.files" || :
}`;

// Repositories inside the tree and files above the limit: what `git add` must not be let loose on.
// All sizes are those that a file has with its holes. Where all that changed is too much, files
// above a lower limit, 1.5 MiB, then 64 KiB, are among them.
const scan = `
most=${largestFileBytes}
listed() {
  find . -path ./.git -prune $pruned -o "$@"
}
scan_once() {
  listed -name .git -prune -print0 -o -type f -size +\${most}c -print0
}
weight() { awk '{ total += $5 } END { printf "%.0f", total }'; }
is_heavy() {
  set -- -type f -size +${weighedFrom}c ! -size +\${most}c -exec ls -lnqd {} +
  total=$(listed -name .git -prune -o "$@" 2> /dev/null | weight)
  if [ "$total" -le ${largestTreeBytes} ]; then return 1; fi
  # Ignored files do not count, and those of the base only where they changed.
  total=$(git ls-files -z -o -m --exclude-standard | named_below \\
    | xargs -0 sh -c 'size=$1; shift
      [ $# = 0 ] || find "$@" -maxdepth 0 -type f -size +${weighedFrom}c ! -size +$size -exec ls -lnqd {} + 2> /dev/null || :' \\
      wavesmith "\${most}c" | weight)
  [ "$total" -gt ${largestTreeBytes} ]
}
scan() {
  pruned=
  for name in $excluded; do pruned="$pruned -o -type d -name $name -prune"; done
  while [ $most -gt ${weighedFrom} ] && is_heavy; do most=$((most / 32)); done
  scan_once
}`;

const addAll = `
add_all() {
  git add -A --ignore-errors "$@" && return 0
  # What could not be read may be made readable; what then still cannot be added is named.
  chmod -R u+rwX . 2> /dev/null || :
  git add -A --ignore-errors "$@" || left_over
}`;

// Each of these fails when objects of the base are missing: the index alone does not tell.
const finish = `
finish() {
  written=$(git write-tree) || exit ${lacksCommit}
  printf 'tree\\0%s\\0' "$written"
  if [ "$written" = "$base_tree" ]; then return 0; fi
  commit=$(printf '%s' "$KEEP_MESSAGE" | git commit-tree "$written" -p "$base") || exit ${lacksCommit}
  printf '# v2 git bundle\\n-%s \\n%s refs/wavesmith/kept\\n\\n' "$base" "$commit" > "$mine.bundle"
  printf '%s\\n^%s\\n' "$commit" "$base" \\
    | git pack-objects --revs --thin --stdout -q --delta-base-offset >> "$mine.bundle" || exit ${lacksCommit}
}`;

// Several may do this in one tree at the same time: nothing that git could be reading is written
// twice.
const beginIndex = `${machineBoot}
base=$4 base_tree=$5 excluded=$7
opened_at=
# Of what was made before the machine started anew nothing is needed, and any of it may be damaged.
if [ -f "$GIT_DIR/index" ] && since_boot "$GIT_DIR"; then read -r opened_at < "$GIT_DIR/base" || :; fi
if [ "$opened_at" = "$base" ]; then
  cp -p "$GIT_DIR/index" "$GIT_INDEX_FILE"
else
  if [ -z "$opened_at" ]; then
    mkdir -p "$GIT_DIR/objects/info" "$GIT_DIR/objects/pack" "$GIT_DIR/refs/heads" "$GIT_DIR/info"
    repository "$GIT_DIR" "$6" "$8" "$9"
  fi
  git read-tree "$base" || exit ${lacksCommit}
fi
if [ -f Cargo.toml ] && ! git cat-file -e "$base:target" 2> /dev/null; then
  printf '%s/target/\\n' "$8" > "$mine.exclude"
  mv "$mine.exclude" "$GIT_DIR/info/exclude"
fi`;

/**
 * Args: …, base, base's tree, repo's objects from the keep folder's, names of excluded folders
 * (space-separated), exclude rules, attribute rules. When nothing is odd, commits and bundles at
 * once; else prints each `odd` path. Begins from the index the tree was opened with, so that only
 * what changed is read; without it, from the base.
 */
export const keepScript = `${prelude}${makeRepository}${addForced}${scan}${addAll}${finish}${beginIndex}
add_forced
scan > "$mine.odd" 2> /dev/null || {
  chmod -R u+rwX . 2> /dev/null || :
  scan > "$mine.odd" || :
}
printf 'most\\0%s\\0' $most
if [ -s "$mine.odd" ]; then facts odd < "$mine.odd"; exit 0; fi
add_all .
finish`;

/**
 * Stdin: NUL-separated paths. Prints each that the tree's rules ignore and the index has not got as
 * \`ignored\`.
 */
export const findIgnoredScript = `${prelude}
git check-ignore -z --stdin > "$mine.ignored" || [ $? = 1 ]
facts ignored < "$mine.ignored"`;

/** Stdin: NUL-separated pathspecs. Adds them to the index. */
export const addScript = `${prelude}${addAll}
cat > "$mine.pathspecs"
add_all --pathspec-from-file="$mine.pathspecs" --pathspec-file-nul`;

/**
 * Stdin: NUL-separated paths. Adds them to the index; of as many pathspecs git would compare each
 * with each path.
 */
export const addPathsScript = `${prelude}${addAll}
cat > "$mine.paths"
git update-index --add --remove --replace -z --stdin < "$mine.paths" 2> /dev/null && exit 0
# One of them cannot be added, which \`git add\` names.
prefixed ':(literal)' < "$mine.paths" > "$mine.pathspecs"
add_all --pathspec-from-file="$mine.pathspecs" --pathspec-file-nul`;

/**
 * Args: …, base, folder. Stdin: NUL-separated pathspecs from there. Adds the files of a repository
 * inside the tree as plain ones, by its own ignore rules.
 */
export const addNestedScript = `${prelude}${addAll}
cat > "$mine.pathspecs"
nested() {
  (
    export GIT_WORK_TREE="$tree/$2" GIT_INDEX_FILE="$mine.nested.index"
    cd "$2"
    rm -f "$GIT_INDEX_FILE"
    git read-tree "$1:$2" 2> /dev/null || git read-tree --empty
    add_all --pathspec-from-file="$mine.pathspecs" --pathspec-file-nul > /dev/null
    git write-tree
  )
}
written=$(nested "$4" "$5")
git rm -r -f -q --cached --ignore-unmatch -- ":(literal)$5"
git read-tree --prefix="$5/" "$written"`;

/** Args: …, base, base's tree. Stdin: NUL-separated paths to leave out. */
export const finishScript = `${prelude}${finish}
base=$4 base_tree=$5
git update-index --force-remove -z --stdin
rm -f "$mine.bundle"
finish`;

/**
 * Args: as keepScript's. Prints what differs from the base as `changed`, and each `odd` path; reads
 * no file that others may be writing but to compare it. The index is left for the scripts that
 * follow. A folder that is a repository of its own is one path, with a slash at its end.
 */
export const listScript = `${prelude}${makeRepository}${scan}${beginIndex}
# Fails when objects of the base are missing, which the index does not tell.
git write-tree > /dev/null 2>&1 || exit ${lacksCommit}
list() { git ls-files -z -o -m -d --exclude-standard > "$mine.changed" 2> "$mine.complaints"; }
list || exit ${lacksCommit}
if [ -s "$mine.complaints" ]; then
  chmod -R u+rwX . 2> /dev/null || :
  list || exit ${lacksCommit}
fi
facts changed < "$mine.changed"
scan > "$mine.odd" 2> /dev/null || :
printf 'most\\0%s\\0' $most
facts odd < "$mine.odd"`;

/** Stdin: NUL-separated paths from the tree, files and folders. Removes them. */
export const removeScript = `${prelude}
named_below | xargs -0 sh -c '
  rm -rf "$@" 2> /dev/null || { chmod -R u+rwX "$@" 2> /dev/null || :; rm -rf "$@"; }' wavesmith`;

/**
 * Prints each folder with nothing in it that is git's, inner ones first, as `folder`; ignored ones
 * are left out.
 */
export const listFoldersScript = `${prelude}
git ls-files -z -o --directory --exclude-standard > "$mine.untracked"
named_below < "$mine.untracked" | xargs -0 sh -c '[ $# = 0 ] || find "$@" -depth -type d -print0' wavesmith \\
  > "$mine.folders"
facts folder < "$mine.folders"`;

/** Stdin: NUL-separated folders, inner ones first. Removes those that are empty. */
export const removeEmptyScript = `${prelude}
named_below | xargs -0 sh -c 'rmdir "$@" 2> /dev/null || :' wavesmith`;

/** Args: …, base. Stdin: NUL-separated paths that the base has. Makes them as they are there. */
export const checkOutScript = `${prelude}
base=$4
git read-tree "$base" || exit ${lacksCommit}
git checkout-index -q -f -z --stdin`;
