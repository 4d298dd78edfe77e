-- The whole first schema of Coppice: the words are those of docs/semantics.md, the protocols
-- that read and write these tables are in docs/internals.md.
--
-- Conventions
--   * Ids come from one sequence and a parent always gets its id before its children, so
--     "ascending id" means "ancestors first": the lock order of the whole engine.
--   * Columns are laid out by alignment (8, 4, 2, 1 bytes, then variable), which saves padding
--     in the hot rows. NULL costs nothing, so a job's rare options are NULL when unset.
--   * Words that people compare or sort (states, queues, kinds, keys) are COLLATE "C": byte order,
--     the same on every server, and the cheapest to compare.
--   * args, results and metadata are json, not jsonb: json keeps the bytes, the order of keys and the
--     digits of numbers as they were sent, and costs no conversion on the way in or out.
--   * There are no foreign keys: the settle protocol keeps parents and children in step in one
--     transaction, and a foreign key would lock parents (FOR KEY SHARE) in an order of its own.

-- +goose Up
-- +goose ENVSUB ON

CREATE SEQUENCE "${COPPICE_SCHEMA:-coppice}".job_ids AS bigint;
CREATE SEQUENCE "${COPPICE_SCHEMA:-coppice}".worker_ids AS bigint;

-- Live jobs only: small and hot.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".jobs (
  id              bigint      NOT NULL,
  root_id         bigint      NOT NULL,               -- the tree: the id of its root
  parent_id       bigint,                             -- NULL for a root
  claim_seq       bigint      NOT NULL DEFAULT 0,     -- the fence: rises at every claim and forced change
  worker_id       bigint,                             -- set exactly while running
  run_at          timestamptz NOT NULL DEFAULT now(), -- due time
  created_at      timestamptz NOT NULL DEFAULT now(),
  started_at      timestamptz,                        -- when the newest claim was made
  age_from        timestamptz,                        -- where the age budget starts; NULL: created_at
  stalled_at      timestamptz,                        -- since when a dead child holds this parent up
  deadline_at     timestamptz,                        -- what is left of the tree is cancelled then
  seal_by         timestamptz,                        -- an unsealed parent is dead-lettered then
  timeout_ms      bigint,                             -- NULL: the worker's default for the kind
  max_age_ms      bigint,                             -- retry budget in time; NULL: none
  backoff_base_ms bigint,                             -- NULL: the worker's default for the kind
  backoff_cap_ms  bigint,
  keep_ms         bigint,                             -- history retention; NULL: the queue's; 0: none
  pending         integer     NOT NULL DEFAULT 0,     -- children not yet settled
  completed       integer     NOT NULL DEFAULT 0,     -- children completed
  dead            integer     NOT NULL DEFAULT 0,     -- children in the DLQ
  cancelled       integer     NOT NULL DEFAULT 0,     -- children cancelled
  removed         integer     NOT NULL DEFAULT 0,     -- dead children deleted from the DLQ
  attempt         integer     NOT NULL DEFAULT 0,     -- attempts started, the running one included
  max_attempts    integer     NOT NULL DEFAULT 10,
  lost            integer     NOT NULL DEFAULT 0,     -- times a worker died on it
  snoozes         integer     NOT NULL DEFAULT 0,
  round           integer     NOT NULL DEFAULT 0,     -- 0: works; n: the n-th roll-up of a finalizer
  parent_round    integer,                            -- the parent's round that it was made for; NULL: 1
  tolerate_count  integer     NOT NULL DEFAULT 0,     -- so many dead children count as settled
  tolerate_ratio  real        NOT NULL DEFAULT 0,     -- or such a share of them
  backoff_factor  real,
  backoff_jitter  real,
  progress        real,                               -- 0 to 1
  priority        smallint    NOT NULL DEFAULT 0,     -- lower first
  sealed          boolean     NOT NULL DEFAULT true,  -- false: more children may come
  held            boolean     NOT NULL DEFAULT false, -- an operator's hold, apart from the state
  hold_below      boolean     NOT NULL DEFAULT false, -- children that are added to it are held too
  parked          boolean     NOT NULL DEFAULT false, -- ready, but its group or limit has no room: see docs/internals.md
  awaited         boolean     NOT NULL DEFAULT false, -- somebody waits for its end
  state           text COLLATE "C" NOT NULL,
  queue           text COLLATE "C" NOT NULL,
  kind            text COLLATE "C" NOT NULL,
  on_dead         text COLLATE "C" NOT NULL DEFAULT 'wait',
  on_lost         text COLLATE "C" NOT NULL DEFAULT 'retry',
  closing         text COLLATE "C",                   -- what becomes of it: 'cancelled', or the reason of a dead letter
  closing_by      text,                               -- the actor
  closing_why     text,
  dedup_key       text COLLATE "C",
  child_key       text COLLATE "C",                   -- names it among its siblings
  group_key       text COLLATE "C",                   -- jobs of one group run one at a time
  limit_key       text COLLATE "C",
  effect          text COLLATE "C",                   -- the once-only step in flight
  tags            text[],
  meta            json,
  trace           json,                               -- trace context
  checkpoint      json,
  args            json        NOT NULL,
  CONSTRAINT jobs_pkey PRIMARY KEY (id),
  CONSTRAINT jobs_state CHECK (state IN ('scheduled', 'ready', 'running', 'waiting')),
  CONSTRAINT jobs_worker CHECK ((state = 'running') = (worker_id IS NOT NULL))
) WITH (
  -- A queue table is all churn: vacuum by rows changed, not by a share of a size that swings.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- Claim.
CREATE INDEX jobs_ready ON "${COPPICE_SCHEMA:-coppice}".jobs (queue, priority, run_at, id)
  WHERE state = 'ready' AND NOT held AND group_key IS NULL AND limit_key IS NULL;
-- The careful claim: jobs with a group or a limit that may have room.
CREATE INDEX jobs_keyed ON "${COPPICE_SCHEMA:-coppice}".jobs (queue, priority, run_at, id)
  WHERE (group_key IS NOT NULL OR limit_key IS NOT NULL) AND state = 'ready' AND NOT held AND NOT parked;
-- The line of a group, and who of it runs: one at most.
CREATE INDEX jobs_group ON "${COPPICE_SCHEMA:-coppice}".jobs (group_key, id)
  WHERE group_key IS NOT NULL AND state <> 'waiting';
CREATE UNIQUE INDEX jobs_group_running ON "${COPPICE_SCHEMA:-coppice}".jobs (group_key)
  WHERE group_key IS NOT NULL AND state = 'running';
-- Who counts against a limit, and who waits for it.
CREATE INDEX jobs_limit_running ON "${COPPICE_SCHEMA:-coppice}".jobs (limit_key)
  WHERE limit_key IS NOT NULL AND state = 'running';
CREATE INDEX jobs_limit_parked ON "${COPPICE_SCHEMA:-coppice}".jobs (limit_key, queue, priority, run_at, id)
  WHERE limit_key IS NOT NULL AND parked AND NOT held;
-- Promotion of what has come due, and the time of the next.
CREATE INDEX jobs_scheduled ON "${COPPICE_SCHEMA:-coppice}".jobs (queue, run_at, id)
  WHERE state = 'scheduled' AND NOT held;
-- Release and rescue by worker; running counts.
CREATE INDEX jobs_running ON "${COPPICE_SCHEMA:-coppice}".jobs (worker_id, id)
  WHERE state = 'running';
-- The members of a tree, and the children of one parent in it.
CREATE INDEX jobs_tree ON "${COPPICE_SCHEMA:-coppice}".jobs (root_id, parent_id, id)
  WHERE parent_id IS NOT NULL;
-- The list of live trees.
CREATE INDEX jobs_roots ON "${COPPICE_SCHEMA:-coppice}".jobs (id)
  WHERE parent_id IS NULL AND round > 0;
-- Trees that a dead child holds up, and since when.
CREATE INDEX jobs_stalled ON "${COPPICE_SCHEMA:-coppice}".jobs (root_id, stalled_at)
  WHERE state = 'waiting' AND stalled_at IS NOT NULL;
-- What is being cancelled or stopped, by tree.
CREATE INDEX jobs_closing ON "${COPPICE_SCHEMA:-coppice}".jobs (root_id, id)
  WHERE closing IS NOT NULL;
-- Whose deadline comes next, and which unsealed parent is given up next.
CREATE INDEX jobs_deadline ON "${COPPICE_SCHEMA:-coppice}".jobs (deadline_at)
  WHERE deadline_at IS NOT NULL AND closing IS NULL;
CREATE INDEX jobs_unsealed ON "${COPPICE_SCHEMA:-coppice}".jobs (seal_by)
  WHERE NOT sealed AND closing IS NULL;
CREATE UNIQUE INDEX jobs_dedup ON "${COPPICE_SCHEMA:-coppice}".jobs (dedup_key)
  WHERE dedup_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_child ON "${COPPICE_SCHEMA:-coppice}".jobs (parent_id, child_key)
  WHERE child_key IS NOT NULL;

-- The dead-letter queue: the whole job row, and why automatic work gave up.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".dead_jobs (
  LIKE "${COPPICE_SCHEMA:-coppice}".jobs INCLUDING DEFAULTS,
  failed_at   timestamptz NOT NULL DEFAULT now(),
  kept        boolean     NOT NULL DEFAULT false,  -- held against retention
  reason      text COLLATE "C" NOT NULL,           -- tree.Reason
  fingerprint text COLLATE "C",                    -- groups like errors
  dropped_key text COLLATE "C",                    -- the dedup key that it held when it lived
  error       text,
  CONSTRAINT dead_jobs_pkey PRIMARY KEY (id),
  CONSTRAINT dead_jobs_state CHECK (state = 'dead' AND dedup_key IS NULL)
);
CREATE INDEX dead_jobs_tree ON "${COPPICE_SCHEMA:-coppice}".dead_jobs (root_id, parent_id, id);
-- Is a child of this key dead?
CREATE INDEX dead_jobs_child ON "${COPPICE_SCHEMA:-coppice}".dead_jobs (parent_id, child_key)
  WHERE child_key IS NOT NULL;
-- The list of trees whose root is dead.
CREATE INDEX dead_jobs_roots ON "${COPPICE_SCHEMA:-coppice}".dead_jobs (id)
  WHERE parent_id IS NULL AND round > 0;
-- The list of dead letters, of one queue and of all.
CREATE INDEX dead_jobs_queue ON "${COPPICE_SCHEMA:-coppice}".dead_jobs (queue, failed_at, id);
CREATE INDEX dead_jobs_failed ON "${COPPICE_SCHEMA:-coppice}".dead_jobs (failed_at, id);

-- Results of children, kept for their parent's roll-up and removed when it completes.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".results (
  parent_id bigint  NOT NULL,
  child_id  bigint  NOT NULL,
  round     integer NOT NULL,
  kind      text COLLATE "C" NOT NULL,
  child_key text COLLATE "C",
  value     json,                      -- NULL: none; the row remembers the key of a child that has ended
  CONSTRAINT results_pkey PRIMARY KEY (parent_id, child_id)
) WITH (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);
-- Has a child of this key ended?
CREATE INDEX results_child ON "${COPPICE_SCHEMA:-coppice}".results (parent_id, child_key)
  WHERE child_key IS NOT NULL;

-- Completed and cancelled jobs: append-only, partitioned by day (UTC), purged by dropping partitions.
-- The default partition catches what no day's partition takes, so that a settle can never fail for
-- want of one.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".history (
  LIKE "${COPPICE_SCHEMA:-coppice}".jobs INCLUDING DEFAULTS,
  finished_at timestamptz NOT NULL DEFAULT now(),
  actor       text,
  error       text,   -- why it was cancelled, or the note of a job that was skipped
  result      json,
  skipped     boolean NOT NULL DEFAULT false, -- completed without running: its guard said that the world had moved on
  CONSTRAINT history_state CHECK (state IN ('completed', 'cancelled'))
) PARTITION BY RANGE (finished_at);
CREATE INDEX history_id ON "${COPPICE_SCHEMA:-coppice}".history (id);
CREATE INDEX history_tree ON "${COPPICE_SCHEMA:-coppice}".history (root_id, parent_id, id)
  WHERE parent_id IS NOT NULL;
-- The list of finished trees.
CREATE INDEX history_roots ON "${COPPICE_SCHEMA:-coppice}".history (id)
  WHERE parent_id IS NULL AND round > 0;
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".history_default
  PARTITION OF "${COPPICE_SCHEMA:-coppice}".history DEFAULT;

-- One row a failed attempt.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".job_errors (
  job_id    bigint      NOT NULL,
  root_id   bigint      NOT NULL,
  worker_id bigint,
  at        timestamptz NOT NULL DEFAULT now(),
  attempt   integer     NOT NULL,
  round     integer     NOT NULL,
  outcome   text COLLATE "C" NOT NULL,  -- tree.Outcome: error, timeout, panic, lost, ...
  error     text        NOT NULL,
  stack     text
);
CREATE INDEX job_errors_job ON "${COPPICE_SCHEMA:-coppice}".job_errors (job_id, at);

-- One row a queue, made by its first worker. A queue without one has the defaults.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".queues (
  name              text COLLATE "C" NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT now(),
  paused_at         timestamptz,
  paused_by         text,
  history_retention interval,   -- NULL: the default of tree.DefaultHistoryRetention; zero keeps nothing
  dead_retention    interval,   -- NULL: for ever
  dead_floor        interval,
  max_running       integer,    -- across all processes; NULL: no limit
  CONSTRAINT queues_pkey PRIMARY KEY (name)
);

-- Limits of keys. A key without a row is not limited.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".limits (
  key         text COLLATE "C" NOT NULL,
  max_running integer,                                  -- across all processes and queues; NULL: no limit
  rate        double precision,                         -- starts a second; NULL: no limit
  burst       double precision NOT NULL DEFAULT 1,      -- tokens that can be saved up
  tokens      double precision NOT NULL DEFAULT 0,      -- at refilled_at
  refilled_at timestamptz      NOT NULL DEFAULT now(),
  retry_at    timestamptz,                              -- when there is a token for a job that was parked for want of one
  retry_queue text COLLATE "C",                         -- the queue of that job
  CONSTRAINT limits_pkey PRIMARY KEY (key)
);
CREATE INDEX limits_retry ON "${COPPICE_SCHEMA:-coppice}".limits (retry_queue, retry_at)
  WHERE retry_at IS NOT NULL;

-- Groups and limits of which somebody left, or whose limit changed: parked jobs of them may have room now. Written in the
-- transaction that makes the room, consumed by the next careful claim of the queue.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".marks (
  id        bigint GENERATED ALWAYS AS IDENTITY,
  queue     text COLLATE "C" NOT NULL,
  group_key text COLLATE "C",
  limit_key text COLLATE "C",
  CONSTRAINT marks_pkey PRIMARY KEY (queue, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- One lease a worker process; a beat is one UPDATE however many jobs run.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".workers (
  id         bigint      NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  beat_at    timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  pid        integer     NOT NULL,
  stopping   boolean     NOT NULL DEFAULT false,
  name       text        NOT NULL,
  host       text        NOT NULL,
  queues     text[]      NOT NULL,
  kinds      text[]      NOT NULL,
  CONSTRAINT workers_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- Who did what to which tree, written in the transaction that does it.
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".audit (
  id      bigint GENERATED ALWAYS AS IDENTITY,
  at      timestamptz NOT NULL DEFAULT now(),
  root_id bigint,
  job_id  bigint,
  action  text COLLATE "C" NOT NULL,
  queue   text COLLATE "C",
  actor   text NOT NULL,
  reason  text,
  detail  json,
  CONSTRAINT audit_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_tree ON "${COPPICE_SCHEMA:-coppice}".audit (root_id, id);

-- +goose Down
-- The schema itself stays: it may hold tables of others, and goose's own version table.
DROP TABLE "${COPPICE_SCHEMA:-coppice}".audit;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".workers;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".marks;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".limits;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".queues;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".job_errors;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".history;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".results;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".dead_jobs;
DROP TABLE "${COPPICE_SCHEMA:-coppice}".jobs;
DROP SEQUENCE "${COPPICE_SCHEMA:-coppice}".worker_ids;
DROP SEQUENCE "${COPPICE_SCHEMA:-coppice}".job_ids;
