#!/bin/sh
# Makes inventory.bundle, the git repository this example starts from, out of the files in seed/.
# Names and dates are fixed, so the same files give the same commits.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME="Ada Example" GIT_AUTHOR_EMAIL=ada@example.com
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"
git init --quiet --initial-branch=main

take() { # FILE... : as they are in seed/
  for file in "$@"; do mkdir -p "$(dirname "$file")" && cp "$here/seed/$file" "$file"; done
}
sections_before() { # NAME : the module as it was before that section came
  mkdir -p src && sed "/^\/\/ ---- $1 ----/,\$d" "$here/seed/src/inventory.js" > src/inventory.js
}
commit() { # DATE MESSAGE
  git add --all
  GIT_AUTHOR_DATE="$1T10:00:00Z" GIT_COMMITTER_DATE="$1T10:00:00Z" git commit --quiet --message "$2"
}

take package.json index.js test/csv.test.js
sections_before Stock
commit 2026-01-12 "Read and write the shop's CSV file"

take test/stock.test.js
sections_before Prices
commit 2026-01-19 "Add and take stock"

take test/prices.test.js
sections_before Report
commit 2026-02-02 "Know what things cost"

take src/inventory.js test/report.test.js
commit 2026-02-09 "Report what runs low"

take src/order.js src/labels.js src/cli.js test/order.test.js data/shop.csv README.md
chmod +x src/cli.js
commit 2026-03-02 "Orders, labels and a command line"

git -c pack.threads=1 bundle create --quiet "$here/inventory.bundle" HEAD main
git log --format='%h %ad %s' --date=short
