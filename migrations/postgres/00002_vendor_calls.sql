-- Vendors that answer late, twice or never: what was submitted, under which number, and what
-- the vendor said of it.

-- +goose Up

-- n names the job's next or current call at its vendor (job_id:n); it is raised only after the
-- vendor's own verdict of failure. lost counts starts whose worker never came back. counted
-- says whether the current attempt has used up one of the job's attempts.
ALTER TABLE open_jobs
    ADD COLUMN n       int NOT NULL DEFAULT 1 CHECK (n >= 1),
    ADD COLUMN lost    int NOT NULL DEFAULT 0,
    ADD COLUMN counted boolean NOT NULL DEFAULT true;
ALTER TABLE ended_jobs ADD COLUMN n int NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN vendor_ref text COLLATE "C";

CREATE TABLE vendor_calls (
    job_id      text COLLATE "C" NOT NULL,
    n           int NOT NULL CHECK (n >= 1),
    provider    text COLLATE "C" NOT NULL,
    status      text NOT NULL CHECK (status IN ('claimed', 'accepted', 'succeeded', 'failed', 'cancelled', 'late')),
    ref         text COLLATE "C",
    token       text COLLATE "C" NOT NULL,
    error       text,
    claimed_at  timestamptz NOT NULL,
    sent_at     timestamptz NOT NULL,
    accepted_at timestamptz,
    heard_at    timestamptz,
    called_at   timestamptz,
    ended_at    timestamptz,
    PRIMARY KEY (job_id, n)
) WITH (fillfactor = 80);
CREATE INDEX vendor_calls_ref ON vendor_calls (provider, ref) WHERE ref IS NOT NULL;

-- What vendors called back with, kept before anything is done about it: it may be earlier than
-- our own commit of the reference it speaks of.
CREATE TABLE vendor_events (
    provider    text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    ref         text COLLATE "C" NOT NULL,
    news        text NOT NULL,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (provider, id)
);
CREATE INDEX vendor_events_ref ON vendor_events (provider, ref);
CREATE INDEX vendor_events_received ON vendor_events (received_at);

-- +goose Down
DROP TABLE vendor_events, vendor_calls;
ALTER TABLE attempts DROP COLUMN vendor_ref;
ALTER TABLE ended_jobs DROP COLUMN n;
ALTER TABLE open_jobs DROP COLUMN n, DROP COLUMN lost, DROP COLUMN counted;
