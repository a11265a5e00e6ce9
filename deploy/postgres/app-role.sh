#!/bin/sh
# Makes the role that worker, scheduler and commands use. It may log in and
# nothing else; `makegood migrate up --app-role makegood_app` grants the rest.
# The image of PostgreSQL runs this once, when the database is new.
set -eu
: "${MAKEGOOD_APP_PASSWORD:?}"
# psql reads the password from the environment, so that no list of processes shows it.
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
\getenv password MAKEGOOD_APP_PASSWORD
CREATE ROLE makegood_app LOGIN PASSWORD :'password';
SQL
