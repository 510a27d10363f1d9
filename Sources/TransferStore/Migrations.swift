/// One step of the schema: from the version before it to `version`. A step that was released is never edited:
/// databases that it made are out there.
struct Migration {
  var version: Int64
  var statements: [String]

  /// Without gaps, from version 1.
  static let all = [
    Migration(version: 1, statements: version1),
    Migration(version: 2, statements: leftovers),
    Migration(version: 3, statements: apps),
    Migration(version: 4, statements: keptParts),
    Migration(version: 5, statements: conditions),
    Migration(version: 6, statements: questions),
  ]

  /// Part files in users' folders whose task is gone and whose removal nobody has seen.
  static let leftovers = ["CREATE TABLE leftover (task INTEGER PRIMARY KEY, path TEXT NOT NULL)"]

  /// Resume data, what the engine measured, and sessions that nobody uses.
  static let keptParts = [
    "ALTER TABLE session ADD COLUMN unused_since_ms INTEGER",  // nobody attached and no task; NULL while used
    "ALTER TABLE task ADD COLUMN part_owner INTEGER",  // whose id is in the part file's name, where not its own
    "ALTER TABLE task_progress ADD COLUMN metrics TEXT",  // lines of name=value, one a transaction
    """
    CREATE TABLE kept_part (
      id INTEGER PRIMARY KEY,
      token TEXT NOT NULL UNIQUE,         -- 32 hex digits: what resume data refers to
      task INTEGER NOT NULL,              -- kept from; its row may be gone
      owner INTEGER NOT NULL,             -- whose id is in the file's name
      app TEXT NOT NULL,
      part_path TEXT NOT NULL,
      method TEXT NOT NULL,
      url TEXT NOT NULL,
      headers TEXT NOT NULL,              -- lines of Name: value
      secret_header_names TEXT NOT NULL,  -- lines
      destination TEXT NOT NULL,          -- managed, file
      destination_collision TEXT,
      destination_path TEXT,
      expected_sha256 TEXT,
      status_rule TEXT NOT NULL,
      keeps_encoding INTEGER NOT NULL,
      resume_validator_kind TEXT,
      resume_validator TEXT,
      resume_offset INTEGER,              -- bytes synced to the part file
      resume_total INTEGER,
      received INTEGER NOT NULL,          -- bytes held
      response_status INTEGER,
      response_headers TEXT,
      response_url TEXT,
      response_http_version TEXT,
      boot_id TEXT NOT NULL,
      kept_at_ms INTEGER NOT NULL
    )
    """,
  ]

  /// Questions, and what apps answer to them.
  static let questions = [
    "ALTER TABLE session ADD COLUMN answers_challenges INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE session ADD COLUMN tls TEXT",  // lines of name: value, as those below
    "ALTER TABLE task ADD COLUMN asks_first INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE task_plan ADD COLUMN answers_challenges INTEGER",
    "ALTER TABLE task_plan ADD COLUMN asks_before_begin INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE task_plan ADD COLUMN tls TEXT",
    "ALTER TABLE task_progress ADD COLUMN question TEXT",
    // Credentials, in clear, until the task has ended.
    "ALTER TABLE task_progress ADD COLUMN access TEXT",
  ]

  static let version1 = [
    """
    CREATE TABLE session (
      id INTEGER PRIMARY KEY,
      app TEXT NOT NULL,
      identifier TEXT NOT NULL,
      http_proxy TEXT,
      https_proxy TEXT,
      no_proxy TEXT NOT NULL,
      certificate_file TEXT,
      connections_per_host INTEGER NOT NULL,  -- 1 to 64
      collects_results INTEGER NOT NULL,      -- 0 or 1, as is_… and owes_…
      is_invalidated INTEGER NOT NULL,
      next_task_number INTEGER NOT NULL,
      next_delivery INTEGER NOT NULL,
      owes_finish_events INTEGER NOT NULL
    )
    """,
    // An invalidated session lives on until its results are collected, beside a new one of the same name.
    "CREATE UNIQUE INDEX session_key ON session (app, identifier) WHERE is_invalidated = 0",
    """
    CREATE TABLE task (
      id INTEGER PRIMARY KEY,
      session INTEGER NOT NULL REFERENCES session (id),
      number INTEGER NOT NULL,           -- taskIdentifier, from 1 in each session
      kind TEXT NOT NULL,                -- download, upload, data
      state TEXT NOT NULL,               -- suspended, waiting, running, asking, finalizing, finished
      ending TEXT,                       -- when finished: succeeded, failed, cancelled
      origin TEXT NOT NULL,              -- scheme, host and port of the URL
      is_repeatable INTEGER NOT NULL,
      priority INTEGER NOT NULL,         -- 0 to 255
      is_discretionary INTEGER NOT NULL,
      received INTEGER NOT NULL,         -- body bytes
      sent INTEGER NOT NULL,
      expected INTEGER,
      attempts INTEGER NOT NULL,
      failures INTEGER NOT NULL,         -- in a row
      not_before_ms INTEGER,
      deadline_ms INTEGER,
      finished_at_ms INTEGER,
      key TEXT,                          -- the client's own: enqueueing twice under one makes one task
      destination_path TEXT,             -- claimed by this task until it has finished
      UNIQUE (session, number)
    )
    """,
    "CREATE UNIQUE INDEX task_key ON task (session, key) WHERE key IS NOT NULL",
    """
    CREATE TABLE task_plan (
      task INTEGER PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
      method TEXT NOT NULL,
      url TEXT NOT NULL,
      headers TEXT NOT NULL,              -- lines of Name: value
      secret_header_names TEXT NOT NULL,  -- lines
      source_path TEXT,
      source_pinned_path TEXT,
      source_pin TEXT,                    -- reflink, hardLink, copy, none
      source_device INTEGER,
      source_inode INTEGER,
      source_size_bytes INTEGER,
      source_modified_ns INTEGER,
      destination TEXT NOT NULL,          -- managed, file
      destination_collision TEXT,         -- fail, replace, rename
      part_path TEXT NOT NULL,
      expected_sha256 TEXT,
      status_rule TEXT NOT NULL,          -- any, successOnly
      keeps_encoding INTEGER NOT NULL,
      request_timeout_ms INTEGER NOT NULL,
      resource_timeout_ms INTEGER NOT NULL,
      created_at_ms INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE task_progress (
      task INTEGER PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
      description TEXT,
      resume_validator_kind TEXT,         -- entityTag, lastModified
      resume_validator TEXT,
      resume_offset INTEGER,              -- bytes synced to the part file
      resume_total INTEGER,
      boot_id TEXT NOT NULL,
      response_status INTEGER,
      response_headers TEXT,              -- lines of Name: value
      response_url TEXT,
      response_http_version TEXT,
      failure_code TEXT,
      failure_retryability TEXT,          -- transient, permanent
      failure_domain TEXT,
      failure_number INTEGER,
      failure_detail TEXT,
      failure_retry_after_seconds INTEGER,
      cancel_cause TEXT,                  -- requested, sessionInvalidated, forceQuit
      content_encoding TEXT,              -- that the collected bytes still have
      file_path TEXT,
      body_path TEXT,
      sha256 TEXT,
      is_length_verified INTEGER NOT NULL,
      wasted INTEGER NOT NULL,            -- bytes fetched and thrown away
      restarts INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE delivery (
      id INTEGER PRIMARY KEY,
      session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
      number INTEGER NOT NULL,
      kind TEXT NOT NULL,                 -- file, body, completion, finishEvents
      task INTEGER REFERENCES task (id) ON DELETE CASCADE,
      queued_at_ms INTEGER NOT NULL,
      UNIQUE (session, number)
    )
    """,
    "CREATE INDEX delivery_task ON delivery (task) WHERE task IS NOT NULL",
    // The highest id ever given in a table. Not AUTOINCREMENT: one write a transaction instead of one a row, and
    // ids that were given in a database that had to be set aside can be carried over.
    "CREATE TABLE high_water (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO high_water VALUES ('session', 0), ('task', 0)",
    // Rows that could not be read, each as SQL literals that make it again.
    """
    CREATE TABLE quarantine (
      id INTEGER PRIMARY KEY,
      source_table TEXT NOT NULL,
      source_rowid INTEGER NOT NULL,
      reason TEXT NOT NULL,
      row TEXT NOT NULL,
      moved_at_ms INTEGER NOT NULL
    )
    """,
  ]

  /// What tasks require of the device, and what their owners expect. A discretionary task of before waits until the
  /// last hour before its deadline.
  static let conditions = [
    // A set of bits: 2 unmetered, 4 unconstrained, 8 external power, 16 battery not low, 32 full power, 64 idle.
    "ALTER TABLE task ADD COLUMN constraints INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE task ADD COLUMN urgent_seconds INTEGER NOT NULL DEFAULT 0",
    "UPDATE task SET urgent_seconds = 3600 WHERE is_discretionary = 1",
    "ALTER TABLE task_progress ADD COLUMN held_since_ms INTEGER",
    "ALTER TABLE task_progress ADD COLUMN earliest_begin_ms INTEGER",
    "ALTER TABLE task_progress ADD COLUMN hint_to_send INTEGER",
    "ALTER TABLE task_progress ADD COLUMN hint_to_receive INTEGER",
  ]

  /// Brings the database to the newest version, each step in a transaction of its own.
  /// - Throws: `newerDatabase` when it is newer than the last step.
  static func run(_ steps: [Migration], on connection: Connection, from version: Int64) throws(StoreError) {
    let newest = steps.last?.version ?? 0
    guard version <= newest else {
      throw StoreError(
        .newerDatabase,
        message: """
          \(connection.path) has version \(version), and this ferryd knows versions up to \(newest). Start a ferryd \
          at least as new as the one that wrote it, or move the file away to begin with an empty store.
          """)
    }
    for step in steps where step.version > version {
      try connection.transaction { () throws(StoreError) in
        for statement in step.statements { try connection.execute(statement) }
        try connection.execute("PRAGMA application_id = \(Schema.applicationID)")
        try connection.execute("PRAGMA user_version = \(step.version)")
      }
    }
  }
}
