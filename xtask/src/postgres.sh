# The watcher of postgres.rs: makes a PostgreSQL in a folder of its own, says `ready`, and removes both when its
# stdin ends. Arguments: the folder to make, the folder with the server's programs, lines for postgresql.conf.
# The first line of stdin is the password.
folder=$1 bin=$2 settings=$3 server=

clean() {
    if [ -n "$server" ]; then
        # QUIT is an immediate shutdown: nothing in the folder is worth a checkpoint.
        kill -QUIT "$server" 2>/dev/null
        wait "$server"
    fi
    cd /
    rm -rf "$folder"
}

# A server that ended is a zombie until we wait for it, and takes signals like a living one.
ended() {
    ! kill -0 "$server" 2>/dev/null || grep -q '^State:.Z' "/proc/$server/status" 2>/dev/null
}

# A parent that died while we say something must not take us with it before the folder is gone.
trap '' PIPE
trap 'exit 1' HUP INT TERM
exec 2>&1
umask 077
IFS= read -r password || exit 1
mkdir "$folder" || exit 1
trap clean EXIT
cd "$folder" || exit 1

printf '%s\n' "$password" >password
# The empty cluster need not survive a power cut, so initdb may skip its syncs; the server itself syncs.
"$bin/initdb" -D data --username=hone --pwfile=password --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 \
    --no-sync >log </dev/null 2>&1 || { cat log; exit 1; }
rm password
printf '%s' "$settings" >>data/postgresql.conf

"$bin/postgres" -D data >log </dev/null 2>&1 &
server=$!
# The server writes its state into its pid file; a first start takes a fraction of a second.
tries=600
until grep -q '^ready' data/postmaster.pid 2>/dev/null; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ended; then
        cat log
        exit 1
    fi
    sleep 0.1
done

echo ready
# Nothing more is said; the pipe to the parent is let go.
exec >/dev/null 2>&1
while read -r _; do :; done
