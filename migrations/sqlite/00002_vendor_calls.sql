-- The same as postgres/00002_vendor_calls.sql, in SQLite's words; the comments are there.

-- +goose Up
ALTER TABLE open_jobs ADD COLUMN n INTEGER NOT NULL DEFAULT 1 CHECK (n >= 1);
ALTER TABLE open_jobs ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE open_jobs ADD COLUMN counted INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ended_jobs ADD COLUMN n INTEGER NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN vendor_ref TEXT;

CREATE TABLE vendor_calls (
    job_id      TEXT NOT NULL,
    n           INTEGER NOT NULL CHECK (n >= 1),
    provider    TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('claimed', 'accepted', 'succeeded', 'failed', 'cancelled', 'late')),
    ref         TEXT,
    token       TEXT NOT NULL,
    error       TEXT,
    claimed_at  INTEGER NOT NULL,
    sent_at     INTEGER NOT NULL,
    accepted_at INTEGER,
    heard_at    INTEGER,
    called_at   INTEGER,
    ended_at    INTEGER,
    PRIMARY KEY (job_id, n)
) STRICT;
CREATE INDEX vendor_calls_ref ON vendor_calls (provider, ref) WHERE ref IS NOT NULL;

CREATE TABLE vendor_events (
    provider    TEXT NOT NULL,
    id          TEXT NOT NULL,
    ref         TEXT NOT NULL,
    news        TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (provider, id)
) STRICT;
CREATE INDEX vendor_events_ref ON vendor_events (provider, ref);
CREATE INDEX vendor_events_received ON vendor_events (received_at);

-- +goose Down
DROP TABLE vendor_events;
DROP TABLE vendor_calls;
ALTER TABLE attempts DROP COLUMN vendor_ref;
ALTER TABLE ended_jobs DROP COLUMN n;
ALTER TABLE open_jobs DROP COLUMN n;
ALTER TABLE open_jobs DROP COLUMN lost;
ALTER TABLE open_jobs DROP COLUMN counted;
