# Keeps one server and its directory; see keeper.go.
#
#   sh -c "$(cat keeper.sh)" keeper BASE SIGNAL
#
# Makes a directory under BASE, then runs a script from that directory for
# every line read, and says on stdout what happened. At the end of its input,
# which is the end of its owner, it ends the server with SIGNAL and removes the
# directory.

signal=$2
trap '' PIPE # The owner may die while we talk to it.
umask 077
dir=$(mktemp -d "$1/makegood-test-XXXXXXXX") && cd "$dir" || exit 1
echo "dir $dir"

job=
while read -r script; do
	{
		sh -c 'echo $$ >pid; echo "pid $$"; exec >>log 2>&1; . "./$1"' keeper "$script"
		code=$?
		rm -f pid
		echo "ended $code"
	} </dev/null &
	job=$!
done

# A server that is just starting may not listen to signals yet: say it again.
tries=0
while [ -n "$job" ] && kill -0 "$job"; do
	tries=$((tries + 1))
	[ "$tries" -lt 60 ] || signal=KILL
	if read -r pid <pid; then
		kill -s "$signal" "$pid"
		kill -s CONT "$pid"
	fi
	sleep 0.1
done

# PostgreSQL killed with -9 leaves a segment of System V shared memory behind,
# named on line 7 of its pid file.
if [ -s data/postmaster.pid ]; then
	set -- $(sed -n 7p data/postmaster.pid)
	[ -z "$2" ] || ipcrm -m "$2"
fi

cd /
tries=0
until rm -rf "$dir" || [ "$tries" -ge 50 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
