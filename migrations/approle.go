package migrations

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// GrantAppRole gives a PostgreSQL role what the programs need and no more: entries can be
// read and added, never changed. What the role, or everybody, had beyond that is taken back.
// The role must exist, and must not be one that the tables obey anyway. Run it again after
// each migration that adds a table.
func GrantAppRole(ctx context.Context, db *sql.DB, role string) error {
	if err := checkAppRole(ctx, db, role); err != nil {
		return err
	}
	schema, err := currentSchema(ctx, db)
	if err != nil {
		return err
	}
	r, s := pgx.Identifier{role}.Sanitize(), pgx.Identifier{schema}.Sanitize()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("grant to role %s: %w", role, err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	for _, statement := range []string{
		"GRANT USAGE ON SCHEMA " + s + " TO " + r,
		"REVOKE ALL ON credit_transactions, installation, goose_db_version FROM PUBLIC, " + r,
		"GRANT SELECT, INSERT ON credit_transactions TO " + r,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON accounts, grants, adjustments, jobs, open_jobs, ended_jobs, attempts, vendor_calls, vendor_events, workers, relays, sweeps TO " + r,
		"GRANT SELECT ON installation, goose_db_version TO " + r,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("grant to role %s: %w", role, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("grant to role %s: %w", role, err)
	}
	return nil
}

// checkAppRole refuses a role that does not exist, and one that may do everything: the owner
// of the entries, a member of it, a superuser. Their triggers could then be switched off.
func checkAppRole(ctx context.Context, db *sql.DB, role string) error {
	if err := Check(ctx, db, Postgres); err != nil {
		return err
	}
	var exists, owns bool
	err := db.QueryRowContext(ctx, `SELECT count(r.oid) > 0, coalesce(bool_or(pg_has_role(r.oid, t.relowner, 'MEMBER')), false)
		FROM pg_class t LEFT JOIN pg_roles r ON r.rolname = $1 WHERE t.oid = 'credit_transactions'::regclass`, role).Scan(&exists, &owns)
	switch {
	case err != nil:
		return fmt.Errorf("look for role %s: %w", role, err)
	case !exists:
		return fmt.Errorf("role %q does not exist: create it first, with CREATE ROLE … LOGIN", role)
	case owns:
		return fmt.Errorf("role %q is a superuser, owns the tables or is a member of their owner, so nothing could be kept from it: "+
			"create another one for the programs", role)
	}
	return nil
}
