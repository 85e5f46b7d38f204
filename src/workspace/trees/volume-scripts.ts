// Shell scripts for the volume; everything variable is an argument. They need POSIX sh, git 2.38
// and find, and run at the volume's root. `repo` and a tree may be mount points, so they are
// emptied, never removed. Every task opens a tree, so sh does what it can itself, without another
// process.

/** A script's exit code when `repo` lacks, or cannot read, the commit it should use. */
export const lacksCommit = 4;

/** Shell function `empty FOLDER`: removes its content, whatever its permissions are. */
const emptyFolder = `
empty() {
  find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf {} + 2>/dev/null || {
    chmod -R u+rwX "$1"
    find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
  }
}`;

// One at a time across all processes: the lock is on the folder and ends with the process.
const lockRepo = `
mkdir -p repo
exec 9< repo
if command -v flock > /dev/null; then flock -w 240 9; fi`;

/**
 * Args: sha. Checks the commit out in `repo` if it is there and prints `at` with the commit;
 * otherwise prints `has` with the HEAD of `repo`, if any.
 */
export const tryCheckoutScript = `set -eu
${lockRepo}
export GIT_DIR="$PWD/repo/.git" GIT_WORK_TREE="$PWD/repo"
rm -f "$GIT_DIR"/*.lock
if git cat-file -e "$1^{commit}" 2> /dev/null && (cd repo && git checkout -q --force --detach "$1"); then
  printf 'at\\0%s\\0' "$1"
else
  printf 'has\\0%s\\0' "$(git rev-parse -q --verify 'HEAD^{commit}' || :)"
fi`;

/**
 * Args: sha, bundle, ref, fresh (1: empty `repo` first), exclude rules, attribute rules.
 * Fetches the bundle's objects and checks the commit out.
 */
export const takeBundleScript = `set -eu
${emptyFolder}
${lockRepo}
find sync -mindepth 1 -maxdepth 1 -mmin +60 -exec rm -rf {} +
if [ "$4" = 1 ]; then empty repo; fi
export GIT_DIR="$PWD/repo/.git" GIT_WORK_TREE="$PWD/repo"
git init -q --template= --initial-branch=main
mkdir -p "$GIT_DIR/info"
printf '%s' "$5" > "$GIT_DIR/info/exclude"
printf '%s' "$6" > "$GIT_DIR/info/attributes"
git fetch -q --no-tags --no-write-fetch-head "$2" "+$3:refs/wavesmith/head"
cd repo
git checkout -q --force --detach "$1"`;

/**
 * Shell function `repository FOLDER OBJECTS RULES ATTRIBUTES`: makes an empty repository that
 * borrows the objects at OBJECTS (relative to its own). Its folders must exist.
 */
export const makeRepository = `
repository() {
  printf '%s\\n' "$2" > "$1/objects/info/alternates"
  printf '%s' "$3" > "$1/info/exclude"
  printf '%s' "$4" > "$1/info/attributes"
  printf 'ref: refs/heads/task\\n' > "$1/HEAD"
  printf '[core]\\n\\trepositoryFormatVersion = 0\\n\\tfileMode = true\\n\\tbare = false\\n' > "$1/config"
}`;

/**
 * Shell function `since_boot FOLDER`: whether the tree of this keep folder was opened since the
 * machine booted; files of an older tree may be empty. Always true on a system without boot ids.
 */
export const sinceBootScript = `
boot=
if [ -r /proc/sys/kernel/random/boot_id ]; then read -r boot < /proc/sys/kernel/random/boot_id; fi
since_boot() {
  opened=$boot
  if [ -e "$1/boot" ]; then read -r opened < "$1/boot" || :; fi
  [ "$opened" = "$boot" ]
}`;

/**
 * Args: tree, keep folder, sha, reuse (0 no, 1 yes, boot: unless the machine was rebooted), the
 * paths to repo's objects from the tree's and from the keep folder's, exclude rules, attribute
 * rules. Makes a repository for the tree that borrows repo's objects, and one for commitTree, which
 * the agent cannot write, with the index of the unchanged tree. While `base` in the second one is
 * empty, the tree is incomplete; `base` is emptied before any other change.
 */
export const openTreeScript = `set -eu
${emptyFolder}
${makeRepository}
${sinceBootScript}
tree=$PWD/$1 keep=$PWD/$2
if [ -L "$tree" ]; then echo "$1 is a symlink" >&2; exit 3; fi
# Two calls that open the same tree take turns, so that the second finds it complete.
mkdir -p "$keep/git"
exec 9< "$keep"
if [ "$4" != 0 ] && command -v flock > /dev/null; then flock -w 240 9; fi
reuse=$4
if [ "$4" = boot ] && since_boot "$keep/git"; then reuse=1; fi
for entry in "$tree"/* "$tree"/.[!.]* "$tree"/..?*; do
  if [ ! -e "$entry" ] && [ ! -L "$entry" ]; then continue; fi
  if [ "$reuse" = 1 ] && { [ ! -e "$keep/git/base" ] || [ -s "$keep/git/base" ]; }; then exit 0; fi
  : > "$keep/git/base"
  empty "$tree"
  break
done
: > "$keep/git/base"
mkdir -p "$tree/.git/objects/info" "$tree/.git/objects/pack" "$tree/.git/refs/heads" "$tree/.git/info" \\
  "$keep/git/objects/info" "$keep/git/objects/pack" "$keep/git/refs/heads" "$keep/git/info"
repository "$tree/.git" "$5" "$7" "$8"
repository "$keep/git" "$6" "$7" "$8"
printf '[user]\\n\\tname = Wavesmith agent\\n\\temail = agent@wavesmith.invalid\\n' >> "$tree/.git/config"
printf '[gc]\\n\\tauto = 0\\n[maintenance]\\n\\tauto = false\\n' >> "$tree/.git/config"
printf '%s\\n' "$3" > "$tree/.git/refs/heads/task"
cd "$tree"
GIT_DIR="$tree/.git" GIT_WORK_TREE="$tree" git read-tree --reset -u "$3" || exit ${lacksCommit}
# Keep the index's time (-p), because git rereads files that are not older than the index.
cp -p .git/index "$keep/git/index"
printf '%s\\n' "$boot" > "$keep/git/boot"
if [ -f Cargo.toml ] && [ ! -e target ]; then echo /target/ >> .git/info/exclude; fi
: > .git/wavesmith-opened
# In one write, so that a reader never sees part of it: the tree is complete now.
printf '%s\\n' "$3" > "$keep/git/base"`;

/** Args: folder. Empties it. */
export const emptyScript = `set -eu
${emptyFolder}
empty "$PWD/$1"`;
