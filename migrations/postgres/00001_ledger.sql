-- The ledger: what makegood promises, enforced by the database itself.
-- Invariants I1 to I4 are named where they are enforced; package ledger states them.

-- +goose Up

-- One row for the whole database: names it, so that a Redis server can be told apart from
-- another one that was filled from a different database.
CREATE TABLE installation (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO installation DEFAULT VALUES;

-- An account is the lock under which its entries are written. It holds no balance: the
-- balance is the newest movement's balance_after.
CREATE TABLE accounts (
    id         text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    status     text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed')),
    overdraft  bigint NOT NULL DEFAULT 0 CHECK (overdraft BETWEEN 0 AND 9007199254740991),
    created_at timestamptz NOT NULL,
    UNIQUE (tenant, name)
);

CREATE TABLE credit_transactions (
    id            text COLLATE "C" PRIMARY KEY,
    account_id    text COLLATE "C" NOT NULL,
    seq           bigint CHECK (seq >= 1),
    kind          text COLLATE "C" NOT NULL,
    delta         bigint NOT NULL CHECK (delta BETWEEN -9007199254740991 AND 9007199254740991),
    balance_after bigint CHECK (balance_after BETWEEN -9007199254740991 AND 9007199254740991),
    floor         bigint,
    job_id        text COLLATE "C" NOT NULL,
    about_job     text COLLATE "C",
    reason        text COLLATE "C" NOT NULL,
    actor         text COLLATE "C" NOT NULL,
    evidence      jsonb,
    created_at    timestamptz NOT NULL,
    -- A movement has a place in its account's chain; a marker has none.
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
        ELSE false END),
    -- I4: a deduct never takes the balance below the floor it was allowed to reach.
    CONSTRAINT credit_transactions_floor CHECK (kind <> 'deduct' OR delta = 0 OR (floor IS NOT NULL AND balance_after >= floor)),
    -- I2: each logical step of a job happens once.
    CONSTRAINT credit_transactions_job_kind UNIQUE (job_id, kind)
);
-- I3: at most one outcome a job. A completion and a refund can never both exist.
CREATE UNIQUE INDEX credit_transactions_outcome ON credit_transactions (job_id)
    WHERE kind IN ('task_completed', 'task_failed', 'reconciler_refund');
-- I4: one movement at each place of the chain. The newest one, found by one probe, is the balance.
CREATE UNIQUE INDEX credit_transactions_chain ON credit_transactions (account_id, seq) INCLUDE (balance_after, created_at)
    WHERE seq IS NOT NULL;
CREATE INDEX credit_transactions_history ON credit_transactions (account_id, created_at, id);
CREATE INDEX credit_transactions_about ON credit_transactions (about_job) WHERE about_job IS NOT NULL;

-- I1: entries are only ever added. Statement level: even an UPDATE that matches nothing fails.
-- +goose StatementBegin
CREATE FUNCTION credit_transactions_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'credit_transactions is append-only: % refused', TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Correct a balance with an adjust entry.';
END $$;
-- +goose StatementEnd
CREATE TRIGGER credit_transactions_no_change BEFORE UPDATE OR DELETE ON credit_transactions
    FOR EACH STATEMENT EXECUTE FUNCTION credit_transactions_append_only();
CREATE TRIGGER credit_transactions_no_truncate BEFORE TRUNCATE ON credit_transactions
    FOR EACH STATEMENT EXECUTE FUNCTION credit_transactions_append_only();

-- I4: every movement continues the one before it. Once a statement, so a batch of hundreds
-- costs one join. The planner settings keep that join on index probes even when the plan was
-- made while the table was empty. The movement before is asked for as the newest before this
-- one, and not by its number: where most accounts have one movement, the planner would take any
-- index of the account for the number and read a long account from end to end.
-- +goose StatementBegin
CREATE FUNCTION credit_transactions_continue_chain() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    broken record;
BEGIN
    SELECT n.account_id, n.seq INTO broken
      FROM added n
      LEFT JOIN LATERAL (SELECT m.seq, m.balance_after FROM credit_transactions m
             WHERE m.account_id = n.account_id AND m.seq < n.seq ORDER BY m.seq DESC LIMIT 1) p ON true
     WHERE n.seq IS NOT NULL
       AND n.balance_after IS DISTINCT FROM n.delta + CASE WHEN n.seq = 1 THEN 0 WHEN p.seq = n.seq - 1 THEN p.balance_after END
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry % of account % does not continue its chain', broken.seq, broken.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'credit_transactions_chain';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER credit_transactions_chained AFTER INSERT ON credit_transactions
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION credit_transactions_continue_chain();

-- ALWAYS: also for a session that plays a replica.
ALTER TABLE credit_transactions ENABLE ALWAYS TRIGGER credit_transactions_no_change;
ALTER TABLE credit_transactions ENABLE ALWAYS TRIGGER credit_transactions_no_truncate;
ALTER TABLE credit_transactions ENABLE ALWAYS TRIGGER credit_transactions_chained;

-- What was said beside a grant and an adjustment: free text, so that it can be erased while
-- the entries stay.
CREATE TABLE grants (
    id           text COLLATE "C" PRIMARY KEY,
    account_id   text COLLATE "C" NOT NULL REFERENCES accounts (id),
    tenant       text COLLATE "C" NOT NULL,
    key          text COLLATE "C",
    fingerprint  bytea NOT NULL,
    amount       bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
    source       text NOT NULL,
    priority     int NOT NULL DEFAULT 100,
    reason       text NOT NULL,
    actor        text NOT NULL,
    created_at   timestamptz NOT NULL,
    UNIQUE (tenant, key)
);
CREATE INDEX grants_account ON grants (account_id, created_at, id);

CREATE TABLE adjustments (
    id          text COLLATE "C" PRIMARY KEY,
    account_id  text COLLATE "C" NOT NULL REFERENCES accounts (id),
    tenant      text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    fingerprint bytea NOT NULL,
    amount      bigint NOT NULL CHECK (amount <> 0),
    about_job   text COLLATE "C",
    reason      text NOT NULL,
    actor       text NOT NULL,
    created_at  timestamptz NOT NULL,
    UNIQUE (tenant, key)
);

-- A job is three rows over its life: what was asked (written once), what is happening (only
-- while it is open), how it ended (written once). So finding open jobs costs the number of
-- open jobs, and no wide row is ever updated.
CREATE TABLE jobs (
    job_id       text COLLATE "C" PRIMARY KEY,
    account_id   text COLLATE "C" NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    key          text COLLATE "C",
    fingerprint  bytea NOT NULL,
    type         text NOT NULL,
    cost         bigint NOT NULL CHECK (cost BETWEEN 0 AND 9007199254740991),
    units        int NOT NULL,
    input        text NOT NULL,
    metadata     text NOT NULL,
    max_attempts int NOT NULL CHECK (max_attempts >= 1),
    wait_until   timestamptz,
    retry_of     text COLLATE "C",
    created_at   timestamptz NOT NULL,
    UNIQUE (tenant, key)
);
CREATE INDEX jobs_account ON jobs (account_id, job_id);

CREATE TABLE open_jobs (
    job_id           text COLLATE "C" PRIMARY KEY,
    account_id       text COLLATE "C" NOT NULL,
    held             bigint NOT NULL,
    state            text NOT NULL CHECK (state IN ('queued', 'running')),
    epoch            int NOT NULL,
    attempts         int NOT NULL DEFAULT 0,
    starts           int NOT NULL DEFAULT 0,
    queued_at        timestamptz NOT NULL,
    check_at         timestamptz NOT NULL,
    run_after        timestamptz,
    enqueued_at      timestamptz,
    seen_at          timestamptz,
    refused_at       timestamptz,
    worker           text COLLATE "C",
    token            text COLLATE "C",
    first_started_at timestamptz,
    started_at       timestamptz,
    deadline         timestamptz,
    cancel_at        timestamptz,
    percent          int NOT NULL DEFAULT 0,
    progress         text NOT NULL DEFAULT '',
    CHECK ((state = 'running') = (token IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX open_jobs_due ON open_jobs (check_at) WHERE state = 'queued';
CREATE INDEX open_jobs_account ON open_jobs (account_id);

CREATE TABLE ended_jobs (
    job_id     text COLLATE "C" PRIMARY KEY,
    state      text NOT NULL CHECK (state IN ('completed', 'failed', 'refunded')),
    end_reason text NOT NULL,
    held       bigint NOT NULL,
    charged    bigint NOT NULL,
    shortfall  bigint NOT NULL DEFAULT 0,
    delivered  int NOT NULL DEFAULT 0,
    attempts   int NOT NULL,
    starts     int NOT NULL,
    epoch      int NOT NULL,
    token      text COLLATE "C",
    result     text,
    error      text,
    evidence   jsonb,
    percent    int NOT NULL DEFAULT 0,
    progress   text NOT NULL DEFAULT '',
    started_at timestamptz,
    ended_at   timestamptz NOT NULL
);

-- One row for each run that is over; the run that is going on stands in open_jobs.
CREATE TABLE attempts (
    job_id     text COLLATE "C" NOT NULL,
    n          int NOT NULL,
    token      text COLLATE "C" NOT NULL,
    epoch      int NOT NULL,
    worker     text COLLATE "C" NOT NULL,
    counted    boolean NOT NULL,
    outcome    text NOT NULL,
    error      text,
    run_after  timestamptz,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    PRIMARY KEY (job_id, token)
);

CREATE TABLE workers (
    id          text COLLATE "C" PRIMARY KEY,
    host        text NOT NULL DEFAULT '',
    pid         int NOT NULL DEFAULT 0,
    renewed_at  timestamptz NOT NULL,
    alive_until timestamptz NOT NULL
);

-- What each relay last knew of the queue; the sweep decides from it.
CREATE TABLE relays (
    id           text COLLATE "C" PRIMARY KEY,
    started_at   timestamptz NOT NULL,
    round_at     timestamptz NOT NULL,
    outage_since timestamptz
);

CREATE TABLE sweeps (
    id         text COLLATE "C" PRIMARY KEY,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    seen       int NOT NULL,
    refunded   int NOT NULL,
    remaining  int NOT NULL,
    errors     int NOT NULL,
    decisions  text NOT NULL
);
-- Those that may be forgotten.
CREATE INDEX sweeps_idle ON sweeps (started_at) WHERE refunded = 0 AND errors = 0;

-- Open jobs come and go: keep their dead rows few.
ALTER TABLE open_jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- +goose Down
DROP TABLE sweeps, relays, workers, attempts, ended_jobs, open_jobs, jobs, adjustments, grants, credit_transactions, accounts, installation;
DROP FUNCTION credit_transactions_append_only(), credit_transactions_continue_chain();
