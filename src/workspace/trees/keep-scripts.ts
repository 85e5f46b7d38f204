import { setupRecord } from "../port.ts";
import { lacksCommit, makeRepository, sinceBootScript } from "./volume-scripts.ts";

// Shell scripts that commit a tree without trusting it. Of the tree's `.git` they use only the
// index and the record of what setup left, as data. Git runs on our own repository in the keep
// folder, which borrows the objects of `repo`. All scripts take: tree, keep folder, a name for this
// call's files there. They print facts as `key NUL value NUL`.

/** Larger files are not kept, because forges reject them and every clone would carry them. */
export const largestFileBytes = 50 * 1024 * 1024;

/**
 * The most bytes an attempt may change in total. Holes in sparse files count, because a checkout
 * writes them out.
 */
export const largestTreeBytes = 4 * 1024 * 1024 * 1024;
/** Smaller files are not counted. */
const weighedFrom = 64 * 1024;

/** The exit code when the tree is missing. */
export const lacksTree = 5;

const prelude = `set -eu
keep=$PWD/$2 mine=$PWD/$2/$3
if [ -L "$1" ] || ! cd "$1" 2> /dev/null; then echo "there is no tree at $1" >&2; exit ${lacksTree}; fi
# The guest creates every folder a command may write, so an empty one means that the tree is lost.
if [ ! -e .git ] && [ -z "$(ls -A)" ]; then echo "there is nothing at $1" >&2; exit ${lacksTree}; fi
if [ -e "$keep/git/base" ] && [ ! -s "$keep/git/base" ]; then echo "$1 was never opened completely" >&2; exit ${lacksTree}; fi
tree=$PWD
export GIT_DIR="$keep/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$mine.index"
facts() { xargs -0 sh -c 'for path; do printf "%s\\0%s\\0" "$0" "$path"; done' "$1"; }
prefixed() { tr '\\n\\0' '\\0\\n' | sed "s,^,$1," | tr '\\n\\0' '\\0\\n'; }
# Prefixes names with ./ so that none is read as an option; passes many names to one process.
named_below() { prefixed ./; }
left_over() { git ls-files -z -o -m --exclude-standard | facts left; }
`;

// Adds the ignored files that an agent added with `add -f` or committed.
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

// Finds nested repositories and files above the limit, which `git add` must not see. Sizes include
// the holes of sparse files. If the changes are too large in total, the limit drops to 1.5 MiB and
// then to 50 KiB.
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
  # Ignored files do not count, and the base's files count only if they changed.
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
  # Try again after making everything readable, then report the files that still cannot be added.
  chmod -R u+rwX . 2> /dev/null || :
  git add -A --ignore-errors "$@" || left_over
}`;

// Files that setup left and that have not changed since are not work: the index gets the base's
// entries back. Of the record, a raw diff, only path, mode and content count. Paths to regenerate
// (KEEP_MADE) are work even if setup made them the same.
const undoSetup = `
pairs() {
  tr '\\n\\0' '\\0\\n' | paste - - \\
    | sed 's/^:[0-7]* \\([0-7]*\\) [0-9a-f]* \\([0-9a-f]*\\) [A-Z]/\\1 \\2/' | LC_ALL=C sort
}
record=$tree/${setupRecord}
undo_setup() {
  if [ ! -f "$record" ] || [ -L "$record" ]; then return 0; fi
  pairs < "$record" > "$mine.setup"
  git diff-index --cached --raw -z --no-renames --no-abbrev "$base" | pairs > "$mine.now"
  LC_ALL=C comm -12 "$mine.now" "$mine.setup" | cut -f 2- > "$mine.same"
  printf '%s\\n' "\${KEEP_MADE-}" > "$mine.made"
  grep -avxFf "$mine.made" "$mine.same" | tr '\\n\\0' '\\0\\n' > "$mine.undo" || :
  if [ ! -s "$mine.undo" ]; then return 0; fi
  git update-index --force-remove -z --stdin < "$mine.undo"
  xargs -0 git --literal-pathspecs ls-tree -r -z --full-tree "$base" -- < "$mine.undo" \\
    | git update-index -z --index-info
}`;

// Every command here fails when objects of the base are missing, which the index alone cannot show.
const finish = `${undoSetup}
finish() {
  undo_setup
  written=$(git write-tree) || exit ${lacksCommit}
  printf 'tree\\0%s\\0' "$written"
  if [ "$written" = "$base_tree" ]; then return 0; fi
  commit=$(printf '%s' "$KEEP_MESSAGE" | git commit-tree "$written" -p "$base") || exit ${lacksCommit}
  printf '# v2 git bundle\\n-%s \\n%s refs/wavesmith/kept\\n\\n' "$base" "$commit" > "$mine.bundle"
  printf '%s\\n^%s\\n' "$commit" "$base" \\
    | git pack-objects --revs --thin --stdout -q --delta-base-offset >> "$mine.bundle" || exit ${lacksCommit}
}`;

// Several calls may do this in one tree at the same time, so no file that git could be reading is
// written twice.
const beginIndex = `${sinceBootScript}
base=$4 base_tree=$5 excluded=$7
opened_at=
# Ignore files from before the machine's last boot: they may be damaged, and none is needed.
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
 * Args: …, base, base's tree, the path from the keep folder's objects to repo's, names of excluded
 * folders (space-separated), exclude rules, attribute rules. Commits and bundles the tree, unless
 * there are `odd` paths: then it only prints them. Starts from the index of the opened tree, so
 * that git reads only changed files, or from the base if there is none.
 */
export const keepScript = `${prelude}${makeRepository}${addForced}${scan}${addAll}${finish}${beginIndex}
add_forced
scan > "$mine.odd" 2> /dev/null || {
  chmod -R u+rwX . 2> /dev/null || :
  scan > "$mine.odd" || :
}
printf 'most\\0%s\\0' $most
if [ -s "$mine.odd" ]; then
  facts odd < "$mine.odd"
  if [ -f "$record" ] && [ ! -L "$record" ]; then
    pairs < "$record" | cut -f 2- | LC_ALL=C sort > "$mine.setup"
    tr '\\n\\0' '\\0\\n' < "$mine.odd" | sed 's,^\\./,,; s,/\\.git$,,' | LC_ALL=C sort \\
      | LC_ALL=C comm -12 - "$mine.setup" | tr '\\n\\0' '\\0\\n' | facts by-setup
  fi
  exit 0
fi
add_all .
finish`;

/**
 * Stdin: NUL-separated paths. Prints as `ignored` each path that the tree's rules ignore and the
 * index lacks.
 */
export const findIgnoredScript = `${prelude}
git check-ignore -z --stdin > "$mine.ignored" || [ $? = 1 ]
facts ignored < "$mine.ignored"`;

/** Stdin: NUL-separated pathspecs. Adds them to the index. */
export const addScript = `${prelude}${addAll}
cat > "$mine.pathspecs"
add_all --pathspec-from-file="$mine.pathspecs" --pathspec-file-nul`;

/**
 * Stdin: NUL-separated paths. Adds them to the index. Not as pathspecs, because git would compare
 * each of those with every path.
 */
export const addPathsScript = `${prelude}${addAll}
cat > "$mine.paths"
git update-index --add --remove --replace -z --stdin < "$mine.paths" 2> /dev/null && exit 0
# One of the paths cannot be added; \`git add\` reports which.
prefixed ':(literal)' < "$mine.paths" > "$mine.pathspecs"
add_all --pathspec-from-file="$mine.pathspecs" --pathspec-file-nul`;

/**
 * Args: …, base, folder. Stdin: NUL-separated pathspecs relative to the folder. Adds the files of a
 * nested repository as plain files, by its own ignore rules.
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
 * Takes keepScript's arguments. Prints the paths that differ from the base as `changed`, and each
 * `odd` path. It reads files, which others may be writing, only to compare them. It leaves the
 * index for the scripts that follow. A nested repository is one path that ends with a slash.
 */
export const listScript = `${prelude}${makeRepository}${scan}${beginIndex}
# Fails when objects of the base are missing, which the index does not show.
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

/** Prints each folder without tracked files as `folder`, inner ones first; skips ignored ones. */
export const listFoldersScript = `${prelude}
git ls-files -z -o --directory --exclude-standard > "$mine.untracked"
named_below < "$mine.untracked" | xargs -0 sh -c '[ $# = 0 ] || find "$@" -depth -type d -print0' wavesmith \\
  > "$mine.folders"
facts folder < "$mine.folders"`;

/** Stdin: NUL-separated folders, inner ones first. Removes those that are empty. */
export const removeEmptyScript = `${prelude}
named_below | xargs -0 sh -c 'rmdir "$@" 2> /dev/null || :' wavesmith`;

/** Args: …, base. Stdin: NUL-separated paths of the base. Restores them as they are in the base. */
export const checkOutScript = `${prelude}
base=$4
git read-tree "$base" || exit ${lacksCommit}
git checkout-index -q -f -z --stdin`;
