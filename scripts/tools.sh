# shellcheck shell=sh
# Installs the programs that the tests run, and is sourced by scripts/test.
#
# As root they are installed with apt-get. Otherwise the packages that are missing are downloaded and unpacked into a
# cache of the user's (LEVEE_CACHE, else XDG_CACHE_HOME/levee, else .cache in the repository), and PATH and friends are
# set to it. Nothing outside of that cache is touched, and a machine that has everything is left alone.
#
# What is installed and what for:
#   bazel-bootstrap, bazel-rules-*  a real Bazel 4.2.3, with the JDK it runs on
#   ccache                          a real client of the HTTP cache
#   postgresql                      a real server, with the extensions citext and hstore
#   pgbouncer                       a real transaction pooler
#   gcc, g++, libc6-dev             what Bazel and ccache compile with; the race detector needs it too
#   curl, zstd, ca-certificates     fixtures, and the Go module proxy

tools_packages="bazel-bootstrap bazel-rules-java bazel-rules-proto openjdk-17-jdk-headless ccache postgresql pgbouncer gcc g++ libc6-dev make curl zstd ca-certificates"
tools_commands="bazel-4 ccache pgbouncer gcc g++ curl zstd"

# tools_present is true if every program starts.
tools_present() {
	for c in $tools_commands; do
		command -v "$c" >/dev/null 2>&1 || return 1
	done
	"${JAVA_HOME:-/usr/lib/jvm/java-17-openjdk-amd64}/bin/javac" -version >/dev/null 2>&1 && tools_postgres
}

# tools_postgres is true if there is a server with the extensions, where internal/pglocal looks for one.
tools_postgres() {
	for bin in "${LEVEE_PG_BIN:-}" /usr/lib/postgresql/*/bin; do
		"$bin/postgres" --version >/dev/null 2>&1 || continue
		extensions=$("$bin/pg_config" --sharedir)/extension
		[ -e "$extensions/citext.control" ] && [ -e "$extensions/hstore.control" ] && return
	done
	return 1
}

# tools_install makes them present, or ends the script with a message.
tools_install() {
	tools_use_cache
	if tools_present; then
		return
	fi
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "scripts/test: this is no Debian; install by hand: $tools_packages" >&2
		exit 1
	fi
	if [ "$(id -u)" = 0 ]; then
		tools_as_root
	else
		tools_as_user
		tools_use_cache
	fi
	if ! tools_present; then
		echo "scripts/test: these do not all start after the installation: $tools_commands javac postgres" >&2
		exit 1
	fi
}

tools_as_root() {
	echo "scripts/test: installing $tools_packages" >&2
	export DEBIAN_FRONTEND=noninteractive
	# One retry with fresh lists: an image may come with none, or with some that name packages long replaced.
	# shellcheck disable=SC2086 # a list of words
	apt-get install -y -q --no-install-recommends $tools_packages </dev/null >&2 ||
		{ apt-get update -q </dev/null >&2 && apt-get install -y -q --no-install-recommends $tools_packages </dev/null >&2; } ||
		{ echo "scripts/test: apt-get could not install the packages; see above" >&2; exit 1; }
}

tools_cache() {
	if [ -n "${LEVEE_CACHE:-}" ]; then
		echo "$LEVEE_CACHE"
	elif [ -n "${XDG_CACHE_HOME:-}" ]; then
		echo "$XDG_CACHE_HOME/levee"
	else
		echo "$root/.cache"
	fi
}

# tools_use_cache puts what an earlier run unpacked into the environment.
tools_use_cache() {
	case :$PATH: in
	*:/usr/sbin:*) ;;
	*) PATH=$PATH:/usr/sbin; export PATH ;; # pgbouncer's, which not every user has
	esac
	tree=$(tools_cache)/tools
	[ -e "$tree/complete" ] || return 0
	PATH=$tree/bin:$tree/usr/bin:$tree/usr/sbin:$PATH
	libs=$tree/usr/lib/x86_64-linux-gnu
	LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export PATH LD_LIBRARY_PATH
	if [ -d "$tree/usr/lib/jvm/java-17-openjdk-amd64" ]; then
		JAVA_HOME=$tree/usr/lib/jvm/java-17-openjdk-amd64
		export JAVA_HOME
	fi
	# PostgreSQL finds its other files from where it is.
	for bin in "$tree"/usr/lib/postgresql/*/bin; do
		[ -z "${LEVEE_PG_BIN:-}" ] && [ -d "$bin" ] || continue
		LEVEE_PG_BIN=$bin
		export LEVEE_PG_BIN
	done
}

# tools_as_user unpacks the packages that are not installed into the cache. apt-get keeps its own state there, since the
# system's cannot be written (and may be empty).
tools_as_user() {
	cache=$(tools_cache)
	tree=$cache/tools
	state=$cache/apt
	echo "scripts/test: not root: unpacking packages into $tree" >&2
	rm -rf "$tree"
	mkdir -p "$tree/bin" "$state/lists/partial" "$state/archives/partial"
	set -- -q -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status=/var/lib/dpkg/status \
		-o Dir::Cache="$state" -o Dir::Cache::Archives="$state/archives" -o Debug::NoLocking=1 -o APT::Sandbox::User=
	apt-get "$@" update </dev/null >&2 || { echo "scripts/test: apt-get update failed; see above" >&2; exit 1; }
	# A simulation knows the closure: each line is "Inst NAME (VERSION ...". The compiler is taken whole or not at all,
	# with the C library it links against, because it is run with the tree as its sysroot.
	wanted=$tools_packages
	command -v gcc >/dev/null 2>&1 && command -v g++ >/dev/null 2>&1 && own_compiler=1 || own_compiler=
	# shellcheck disable=SC2086 # lists of words
	missing=$(apt-get "$@" -s --no-install-recommends install $wanted </dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p')
	[ -n "$own_compiler" ] || missing="$missing libc6 libgcc-s1 libstdc++6"
	# shellcheck disable=SC2086
	(cd "$state/archives" && apt-get "$@" download $missing </dev/null >&2) ||
		{ echo "scripts/test: the packages could not be downloaded; see above" >&2; exit 1; }
	for deb in "$state"/archives/*.deb; do
		dpkg-deb -x "$deb" "$tree" || { echo "scripts/test: $deb does not unpack" >&2; exit 1; }
	done
	rm -f "$state"/archives/*.deb
	tools_relink "$tree"
	[ -n "$own_compiler" ] || tools_wrap_compiler "$tree"
	touch "$tree/complete"
}

# tools_relink points absolute links into the tree, where their targets are.
tools_relink() {
	find "$1" -type l | while read -r link; do
		target=$(readlink "$link")
		case $target in
		/*) [ -e "$1$target" ] && ln -sfn "$1$target" "$link" ;;
		esac
	done
}

# tools_wrap_compiler makes gcc, g++, cc and c++ commands that find headers, start files and libraries in the tree.
tools_wrap_compiler() {
	for name in gcc g++; do
		printf '#!/bin/sh\nexec "%s/usr/bin/%s" --sysroot="%s" "$@"\n' "$1" "$name" "$1" >"$1/bin/$name"
		chmod +x "$1/bin/$name"
	done
	ln -sf gcc "$1/bin/cc"
	ln -sf g++ "$1/bin/c++"
}
