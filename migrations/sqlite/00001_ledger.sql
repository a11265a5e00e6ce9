-- The ledger on SQLite: the same tables and the same promises as on PostgreSQL
-- (../postgres/00001_ledger.sql explains them). Times are microseconds since 1970, UTC.

-- +goose Up
CREATE TABLE installation (
    only_row   INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    id         TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    created_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
) STRICT;
INSERT INTO installation DEFAULT VALUES;

CREATE TABLE accounts (
    id         TEXT PRIMARY KEY NOT NULL,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    status     TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed')),
    overdraft  INTEGER NOT NULL DEFAULT 0 CHECK (overdraft BETWEEN 0 AND 9007199254740991),
    created_at INTEGER NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE credit_transactions (
    id            TEXT PRIMARY KEY NOT NULL,
    account_id    TEXT NOT NULL,
    seq           INTEGER CHECK (seq >= 1),
    kind          TEXT NOT NULL,
    delta         INTEGER NOT NULL CHECK (delta BETWEEN -9007199254740991 AND 9007199254740991),
    balance_after INTEGER CHECK (balance_after BETWEEN -9007199254740991 AND 9007199254740991),
    floor         INTEGER,
    job_id        TEXT NOT NULL,
    about_job     TEXT,
    reason        TEXT NOT NULL,
    actor         TEXT NOT NULL,
    evidence      TEXT,
    created_at    INTEGER NOT NULL,
    CONSTRAINT credit_transactions_movement CHECK ((delta = 0) = (seq IS NULL) AND (delta = 0) = (balance_after IS NULL)),
    CONSTRAINT credit_transactions_sign CHECK (CASE kind
        WHEN 'grant' THEN delta > 0
        WHEN 'deduct' THEN delta <= 0
        WHEN 'task_started' THEN delta = 0
        WHEN 'task_completed' THEN delta = 0
        WHEN 'task_failed' THEN delta = 0
        WHEN 'refund' THEN delta > 0
        WHEN 'reconciler_refund' THEN delta >= 0
        WHEN 'settle' THEN delta <> 0
        WHEN 'expire' THEN delta < 0
        WHEN 'revoke' THEN delta < 0
        WHEN 'adjust' THEN delta <> 0
        ELSE 0 END),
    -- I4
    CONSTRAINT credit_transactions_floor CHECK (kind <> 'deduct' OR delta = 0 OR (floor IS NOT NULL AND balance_after >= floor)),
    -- I2
    CONSTRAINT credit_transactions_job_kind UNIQUE (job_id, kind)
) STRICT;
-- I3
CREATE UNIQUE INDEX credit_transactions_outcome ON credit_transactions (job_id)
    WHERE kind IN ('task_completed', 'task_failed', 'reconciler_refund');
-- I4
CREATE UNIQUE INDEX credit_transactions_chain ON credit_transactions (account_id, seq) WHERE seq IS NOT NULL;
CREATE INDEX credit_transactions_history ON credit_transactions (account_id, created_at, id);
CREATE INDEX credit_transactions_about ON credit_transactions (about_job) WHERE about_job IS NOT NULL;

-- I1. TRUNCATE does not exist here; a DELETE without WHERE fires the trigger too.
-- +goose StatementBegin
CREATE TRIGGER credit_transactions_no_update BEFORE UPDATE ON credit_transactions
BEGIN SELECT RAISE(ABORT, 'credit_transactions is append-only: UPDATE refused'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER credit_transactions_no_delete BEFORE DELETE ON credit_transactions
BEGIN SELECT RAISE(ABORT, 'credit_transactions is append-only: DELETE refused'); END;
-- +goose StatementEnd
-- INSERT OR REPLACE deletes the rows in its way without firing the trigger above, so a row in
-- the way is refused before that.
-- +goose StatementBegin
CREATE TRIGGER credit_transactions_no_replace BEFORE INSERT ON credit_transactions
WHEN EXISTS (SELECT 1 FROM credit_transactions WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM credit_transactions WHERE job_id = NEW.job_id AND kind = NEW.kind)
  OR EXISTS (SELECT 1 FROM credit_transactions WHERE account_id = NEW.account_id AND seq = NEW.seq)
  OR (NEW.kind IN ('task_completed', 'task_failed', 'reconciler_refund') AND EXISTS (
        SELECT 1 FROM credit_transactions WHERE job_id = NEW.job_id
           AND kind IN ('task_completed', 'task_failed', 'reconciler_refund')))
BEGIN SELECT RAISE(ABORT, 'credit_transactions is append-only: UNIQUE entry exists already'); END;
-- +goose StatementEnd
-- I4
-- +goose StatementBegin
CREATE TRIGGER credit_transactions_chained BEFORE INSERT ON credit_transactions
WHEN NEW.seq IS NOT NULL AND NEW.balance_after IS NOT NEW.delta + CASE WHEN NEW.seq = 1 THEN 0 ELSE (
        SELECT balance_after FROM credit_transactions WHERE account_id = NEW.account_id AND seq = NEW.seq - 1) END
BEGIN SELECT RAISE(ABORT, 'CHECK credit_transactions_chain: entry does not continue its chain'); END;
-- +goose StatementEnd

CREATE TABLE grants (
    id          TEXT PRIMARY KEY NOT NULL,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    tenant      TEXT NOT NULL,
    key         TEXT,
    fingerprint BLOB NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
    source      TEXT NOT NULL,
    priority    INTEGER NOT NULL DEFAULT 100,
    reason      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (tenant, key)
) STRICT;
CREATE INDEX grants_account ON grants (account_id, created_at, id);

CREATE TABLE adjustments (
    id          TEXT PRIMARY KEY NOT NULL,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    tenant      TEXT NOT NULL,
    key         TEXT,
    fingerprint BLOB NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount <> 0),
    about_job   TEXT,
    reason      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (tenant, key)
) STRICT;

CREATE TABLE jobs (
    job_id       TEXT PRIMARY KEY NOT NULL,
    account_id   TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    key          TEXT,
    fingerprint  BLOB NOT NULL,
    type         TEXT NOT NULL,
    cost         INTEGER NOT NULL CHECK (cost BETWEEN 0 AND 9007199254740991),
    units        INTEGER NOT NULL,
    input        TEXT NOT NULL,
    metadata     TEXT NOT NULL,
    max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
    wait_until   INTEGER,
    retry_of     TEXT,
    created_at   INTEGER NOT NULL,
    UNIQUE (tenant, key)
) STRICT;
CREATE INDEX jobs_account ON jobs (account_id, job_id);

CREATE TABLE open_jobs (
    job_id           TEXT PRIMARY KEY NOT NULL,
    account_id       TEXT NOT NULL,
    held             INTEGER NOT NULL,
    state            TEXT NOT NULL CHECK (state IN ('queued', 'running')),
    epoch            INTEGER NOT NULL,
    attempts         INTEGER NOT NULL DEFAULT 0,
    starts           INTEGER NOT NULL DEFAULT 0,
    queued_at        INTEGER NOT NULL,
    check_at         INTEGER NOT NULL,
    run_after        INTEGER,
    enqueued_at      INTEGER,
    seen_at          INTEGER,
    refused_at       INTEGER,
    worker           TEXT,
    token            TEXT,
    first_started_at INTEGER,
    started_at       INTEGER,
    deadline         INTEGER,
    cancel_at        INTEGER,
    percent          INTEGER NOT NULL DEFAULT 0,
    progress         TEXT NOT NULL DEFAULT '',
    CHECK ((state = 'running') = (token IS NOT NULL))
) STRICT;
CREATE INDEX open_jobs_due ON open_jobs (check_at) WHERE state = 'queued';
CREATE INDEX open_jobs_account ON open_jobs (account_id);

CREATE TABLE ended_jobs (
    job_id     TEXT PRIMARY KEY NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('completed', 'failed', 'refunded')),
    end_reason TEXT NOT NULL,
    held       INTEGER NOT NULL,
    charged    INTEGER NOT NULL,
    shortfall  INTEGER NOT NULL DEFAULT 0,
    delivered  INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL,
    starts     INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    token      TEXT,
    result     TEXT,
    error      TEXT,
    evidence   TEXT,
    percent    INTEGER NOT NULL DEFAULT 0,
    progress   TEXT NOT NULL DEFAULT '',
    started_at INTEGER,
    ended_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE attempts (
    job_id     TEXT NOT NULL,
    n          INTEGER NOT NULL,
    token      TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    counted    INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    error      TEXT,
    run_after  INTEGER,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    PRIMARY KEY (job_id, token)
) STRICT;

CREATE TABLE workers (
    id          TEXT PRIMARY KEY NOT NULL,
    host        TEXT NOT NULL DEFAULT '',
    pid         INTEGER NOT NULL DEFAULT 0,
    renewed_at  INTEGER NOT NULL,
    alive_until INTEGER NOT NULL
) STRICT;

CREATE TABLE relays (
    id           TEXT PRIMARY KEY NOT NULL,
    started_at   INTEGER NOT NULL,
    round_at     INTEGER NOT NULL,
    outage_since INTEGER
) STRICT;

CREATE TABLE sweeps (
    id         TEXT PRIMARY KEY NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    refunded   INTEGER NOT NULL,
    remaining  INTEGER NOT NULL,
    errors     INTEGER NOT NULL,
    decisions  TEXT NOT NULL
) STRICT;
CREATE INDEX sweeps_idle ON sweeps (started_at) WHERE refunded = 0 AND errors = 0;

-- +goose Down
DROP TABLE sweeps; DROP TABLE relays; DROP TABLE workers; DROP TABLE attempts; DROP TABLE ended_jobs;
DROP TABLE open_jobs; DROP TABLE jobs; DROP TABLE adjustments; DROP TABLE grants;
DROP TABLE credit_transactions; DROP TABLE accounts; DROP TABLE installation;
