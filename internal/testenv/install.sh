# Installs Debian packages without letting them start or create a server; run
# as root by install.go, one at a time.
#
#   sh -c "$(cat install.sh)" install PACKAGE...

set -eu
export DEBIAN_FRONTEND=noninteractive
unset TMPDIR # apt has a user of its own, which cannot enter a private one

policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.d
ours=$clusters/makegood-testenv.conf

# What we change is put back, whatever happens.
made_policy=
made_clusters=
restore() {
	rm -f "$ours"
	[ -z "$made_clusters" ] || rmdir -p "$clusters" 2>/dev/null || true
	[ -z "$made_policy" ] || rm -f "$policy"
}
trap restore EXIT
trap 'exit 1' HUP INT TERM

# No package starts its service.
if [ ! -e "$policy" ]; then
	made_policy=yes
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

# PostgreSQL makes no cluster of its own.
[ -d "$clusters" ] || made_clusters=yes
mkdir -p "$clusters"
echo 'create_main_cluster = false' >"$ours"

# A foreign apt may be at work: dpkg can wait for its lock, the lists cannot.
tries=0
until apt-get update -qq; do
	tries=$((tries + 1))
	[ "$tries" -lt 5 ] || exit 1
	sleep 3
done
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"

# Nor does one start at the next boot.
for package in "$@"; do
	case $package in
	redis-server) update-rc.d redis-server disable || true ;;
	esac
done
