// Shell text for the volume; everything variable is an argument. POSIX sh, git 2.38, find.
// The volume's root is the working folder; `repo` and a tree may be mount points, so they are emptied, never removed.

/** A script's exit code when `repo` has not got, or cannot read, the commit it was told to use. */
export const lacksCommit = 4;

/** Shell function `empty FOLDER`: removes all in it, whatever modes it was left in. */
const emptyFolder = `
empty() {
  find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf {} + 2>/dev/null || {
    chmod -R u+rwX "$1"
    find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
  }
}`;

// One at a time, across all processes: the lock is the folder's, and dies with who holds it.
const lockRepo = `
mkdir -p repo
exec 9< repo
if command -v flock > /dev/null; then flock -w 240 9; fi`;

/** Args: sha. Puts \`repo\` on the commit if it has it. Prints \`at\` with the commit, or \`has\` with its HEAD or nothing. */
export const tryCheckoutScript = `set -eu
${lockRepo}
export GIT_DIR="$PWD/repo/.git" GIT_WORK_TREE="$PWD/repo"
rm -f "$GIT_DIR"/*.lock
if git cat-file -e "$1^{commit}" 2> /dev/null && (cd repo && git checkout -q --force --detach "$1"); then
  printf 'at\\0%s\\0' "$1"
else
  printf 'has\\0%s\\0' "$(git rev-parse -q --verify 'HEAD^{commit}' || :)"
fi`;

/** Args: sha, bundle, ref, fresh (1: begin from nothing), exclude rules, attribute rules. Takes the bundle's objects and checks the commit out. */
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
 * Args: tree, sha, reuse, path from the tree's objects to repo's, exclude rules, attribute rules.
 * Makes a repository of the tree's own that borrows repo's objects. \`wavesmith-opening\` is there while it is half made.
 */
export const openTreeScript = `set -eu
${emptyFolder}
tree=$PWD/$1
opening="$tree/.git/wavesmith-opening"
if [ -L "$tree" ]; then echo "$1 is a symlink" >&2; exit 3; fi
mkdir -p "$tree"
if [ -n "$(ls -A "$tree")" ]; then
  if [ "$3" = 1 ] && [ ! -e "$opening" ]; then exit 0; fi
  empty "$tree"
fi
mkdir -p "$tree/.git/objects/info" "$tree/.git/objects/pack" "$tree/.git/refs/heads" "$tree/.git/info"
cd "$tree/.git"
: > wavesmith-opening
printf '%s/objects\\n' "$4" > objects/info/alternates
printf '%s' "$5" > info/exclude
printf '%s' "$6" > info/attributes
printf 'ref: refs/heads/task\\n' > HEAD
printf '%s\\n' "$2" > refs/heads/task
cat > config <<'END'
[core]
	repositoryFormatVersion = 0
	fileMode = true
	bare = false
	logAllRefUpdates = true
[user]
	name = Wavesmith agent
	email = agent@wavesmith.invalid
[gc]
	auto = 0
[maintenance]
	auto = false
END
cd "$tree"
GIT_DIR="$tree/.git" GIT_WORK_TREE="$tree" git read-tree --reset -u "$2" || exit ${lacksCommit}
if [ -f Cargo.toml ] && [ ! -e target ]; then echo /target/ >> .git/info/exclude; fi
: > .git/wavesmith-opened
rm "$opening"`;

/** Args: folder. Empties it, whatever modes it was left in. */
export const emptyScript = `set -eu
${emptyFolder}
empty "$PWD/$1"`;
