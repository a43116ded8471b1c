-- Times are integer milliseconds UTC. Who may write which column: spec 07.4.

CREATE TABLE sessions (
    session_id          TEXT PRIMARY KEY,
    agent               TEXT NOT NULL,
    cwd                 TEXT NOT NULL,
    store               TEXT NOT NULL,
    root_id             TEXT NOT NULL,
    parent_id           TEXT,
    depth               INTEGER NOT NULL,
    forked_from         TEXT,
    name                TEXT,
    draft               INTEGER NOT NULL DEFAULT 0,
    created_at_ms       INTEGER NOT NULL,
    last_activity_at_ms INTEGER NOT NULL,
    first_message       TEXT NOT NULL DEFAULT '',
    message_count       INTEGER NOT NULL DEFAULT 0,
    model               TEXT,
    mode                TEXT,
    owner_client_id     TEXT,
    unread              INTEGER NOT NULL DEFAULT 0,
    archived_at_ms      INTEGER,
    deleted_at_ms       INTEGER,
    exit_cause          TEXT,
    exit_at_ms          INTEGER,
    env_names           TEXT NOT NULL DEFAULT '[]',  -- names only: values may be secrets (A9)
    env_kept            TEXT NOT NULL DEFAULT '{}'   -- PATH, LANG, LC_*, SHELL, VIRTUAL_ENV
) STRICT;

CREATE INDEX sessions_by_root ON sessions (root_id);
CREATE INDEX sessions_trashed ON sessions (deleted_at_ms) WHERE deleted_at_ms IS NOT NULL;

-- Append-only: the only truth for parenthood.
CREATE TABLE spawn_ledger (
    entry_id   INTEGER PRIMARY KEY,
    at_ms      INTEGER NOT NULL,
    edge       TEXT NOT NULL CHECK (edge IN ('spawn', 'rename', 'delete', 'restore')),
    session_id TEXT NOT NULL,
    parent_id  TEXT,
    root_id    TEXT NOT NULL,
    depth      INTEGER NOT NULL,
    name       TEXT
) STRICT;

CREATE INDEX spawn_ledger_by_parent ON spawn_ledger (parent_id) WHERE edge = 'spawn';

-- Accepted means committed here; a prompt is `sent` at most once in its life.
CREATE TABLE prompts (
    prompt_id     TEXT PRIMARY KEY,
    session_id    TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    source        TEXT NOT NULL CHECK (source IN ('person', 'agent', 'job')),
    firing        TEXT,
    text          TEXT NOT NULL,
    checksum      INTEGER NOT NULL,
    state         TEXT NOT NULL
                  CHECK (state IN ('queued', 'sent', 'done', 'removed', 'interrupted')),
    created_at_ms INTEGER NOT NULL,
    sent_at_ms    INTEGER,
    ended_at_ms   INTEGER,
    stop_reason   TEXT
) STRICT;

-- The whole one serves new positions and the cascade of a purge; SQLite takes a partial one only
-- for a query that repeats its very condition.
CREATE INDEX prompts_by_session ON prompts (session_id, position);
CREATE INDEX prompts_open ON prompts (session_id, position) WHERE state = 'queued';
CREATE INDEX prompts_sent ON prompts (session_id) WHERE state = 'sent';

-- Coverage, one row per root. A worker's writes carry its epoch (S3).
CREATE TABLE workers (
    root_id  TEXT PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    pid      INTEGER,
    start    INTEGER,
    boot_id  TEXT,
    state    TEXT NOT NULL
             CHECK (state IN ('starting', 'ready', 'recovering', 'stopping', 'failed', 'stopped')),
    since_ms INTEGER NOT NULL,
    crashes  INTEGER NOT NULL DEFAULT 0,
    cause    TEXT
) STRICT;

-- One row per ACP session an agent process holds (06.1); the agent's own id is durable here
-- before the first prompt is sent (A8).
CREATE TABLE agent_sessions (
    id                   TEXT PRIMARY KEY,
    session_id           TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    workspace_id         TEXT,
    acp_session_id       TEXT,
    can_load             INTEGER NOT NULL DEFAULT 0,
    status               TEXT NOT NULL CHECK (
        status IN ('pending', 'assigned', 'running', 'completed', 'failed', 'interrupted')),
    process              TEXT NOT NULL CHECK (process IN ('alive', 'exited', 'unknown')),
    pid                  INTEGER,
    process_start        INTEGER,
    boot_id              TEXT,
    created_at_ms        INTEGER NOT NULL,
    started_at_ms        INTEGER,
    updated_at_ms        INTEGER NOT NULL,
    last_heartbeat_at_ms INTEGER
) STRICT;

CREATE INDEX agent_sessions_by_session ON agent_sessions (session_id, created_at_ms, id);

-- Idempotency: the outcome, never the payload, for 24 h.
CREATE TABLE requests (
    request_id    TEXT PRIMARY KEY,
    command       TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    outcome       BLOB
) STRICT;

CREATE INDEX requests_by_age ON requests (created_at_ms);
