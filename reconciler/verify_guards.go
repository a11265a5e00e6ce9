package reconciler

import (
	"fmt"
	"strings"
)

// guard is a part of the schema that enforces a promise on credit_transactions.
type guard struct {
	kind, name string // trigger, index or constraint
	// shape is what it looks like, as the queries below put it; "" where its presence is all.
	shape string
}

// guards are what the migrations install, by dialect (I1 to I4 are enforced by them).
var guards = map[Dialect][]guard{
	Postgres: {
		// tgenabled A: also for a session that plays a replica. tgtype: 26 before update or
		// delete, 34 before truncate, 4 after insert, each once a statement.
		{"trigger", "credit_transactions_no_change", "A 26"},
		{"trigger", "credit_transactions_no_truncate", "A 34"},
		{"trigger", "credit_transactions_chained", "A 4"},
		{"index", "credit_transactions_pkey", "id"},
		{"index", "credit_transactions_job_kind", "job_id,kind"},
		{"index", "credit_transactions_outcome", "job_id where task_completed task_failed reconciler_refund"},
		{"index", "credit_transactions_chain", "account_id,seq where seq"},
		{"constraint", "credit_transactions_movement", ""},
		{"constraint", "credit_transactions_sign", ""},
		{"constraint", "credit_transactions_floor", ""},
	},
	SQLite: {
		{"trigger", "credit_transactions_no_update", "BEFORE UPDATE"},
		{"trigger", "credit_transactions_no_delete", "BEFORE DELETE"},
		{"trigger", "credit_transactions_no_replace", "BEFORE INSERT"},
		{"trigger", "credit_transactions_chained", "BEFORE INSERT"},
		{"index", "pk", "id"},
		{"index", "u", "job_id,kind"},
		{"index", "credit_transactions_outcome", "job_id where task_completed task_failed reconciler_refund"},
		{"index", "credit_transactions_chain", "account_id,seq where seq"},
		{"constraint", "credit_transactions_movement", ""},
		{"constraint", "credit_transactions_sign", ""},
		{"constraint", "credit_transactions_floor", ""},
	},
}

// guardQueries list what there is: kind, name, shape, and what a partial index is limited to.
// A guard that is there without force is not listed: an index that is not unique or not
// valid, a trigger that raises nothing or only sometimes, a constraint that was not checked.
var guardQueries = map[Dialect]string{
	Postgres: `
SELECT 'trigger', t.tgname::text, t.tgenabled::text || ' ' || t.tgtype::text, ''
  FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
 WHERE t.tgrelid = 'credit_transactions'::regclass AND NOT t.tgisinternal AND t.tgqual IS NULL
   AND p.prosrc LIKE '%RAISE EXCEPTION%'
UNION ALL
SELECT 'index', c.relname::text,
       (SELECT string_agg(a.attname::text, ',' ORDER BY k.n)
          FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (att, n)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.att
         WHERE k.n <= i.indnkeyatts),
       coalesce(pg_get_expr(i.indpred, i.indrelid), '')
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 WHERE i.indrelid = 'credit_transactions'::regclass AND i.indisunique AND i.indisvalid AND i.indisready
UNION ALL
SELECT 'constraint', conname::text, '', ''
  FROM pg_constraint
 WHERE conrelid = 'credit_transactions'::regclass AND contype = 'c' AND convalidated`,
	SQLite: `
SELECT 'trigger', name, CASE WHEN sql LIKE '% BEFORE UPDATE ON %' THEN 'BEFORE UPDATE'
                             WHEN sql LIKE '% BEFORE DELETE ON %' THEN 'BEFORE DELETE'
                             WHEN sql LIKE '% BEFORE INSERT ON %' THEN 'BEFORE INSERT' ELSE '' END, ''
  FROM sqlite_master
 WHERE type = 'trigger' AND tbl_name = 'credit_transactions' AND sql LIKE '%RAISE(ABORT%'
UNION ALL
SELECT 'index', CASE l.origin WHEN 'c' THEN l.name ELSE l.origin END,
       (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(l.name) ORDER BY seqno)),
       CASE l.partial WHEN 1 THEN coalesce((SELECT substr(sql, instr(sql, 'WHERE')) FROM sqlite_master WHERE name = l.name), '') ELSE '' END
  FROM pragma_index_list('credit_transactions') l
 WHERE l."unique" = 1
UNION ALL
SELECT 'constraint', c.name, '', ''
  FROM (SELECT 'credit_transactions_movement' AS name UNION ALL SELECT 'credit_transactions_sign' UNION ALL SELECT 'credit_transactions_floor') c
 WHERE EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND sqlite_master.name = 'credit_transactions'
                  AND instr(sql, 'CONSTRAINT ' || c.name || ' CHECK') > 0)`,
}

// checkGuards checks that everything which lets the database enforce the invariants by
// itself is there and switched on (I1).
func (v *verifier) checkGuards() error {
	found := map[[2]string]string{}
	rows, err := v.tx.QueryContext(v.ctx, guardQueries[v.options.Dialect])
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind, name, shape, predicate string
		if err := rows.Scan(&kind, &name, &shape, &predicate); err != nil {
			return fmt.Errorf("read the schema: %w", err)
		}
		if predicate != "" {
			shape += " where " + knownWords(predicate)
		}
		found[[2]string{kind, name}] = shape
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	for _, g := range guards[v.options.Dialect] {
		shape, ok := found[[2]string{g.kind, g.name}]
		switch {
		case !ok:
			v.broken(Broken{Invariant: "I1", Table: "credit_transactions", ID: g.name,
				Detail: "the " + g.kind + " is missing or has no force", Expected: g.shape, Found: nil})
		case shape != g.shape:
			v.broken(Broken{Invariant: "I1", Table: "credit_transactions", ID: g.name,
				Detail: "the " + g.kind + " is switched off or is not what the migrations made", Expected: g.shape, Found: shape})
		}
	}
	return nil
}

// knownWords reduces a predicate, which each database words in its own way, to what matters.
func knownWords(predicate string) string {
	var words []string
	for _, w := range []string{"task_completed", "task_failed", "reconciler_refund", "seq"} {
		if strings.Contains(predicate, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}
