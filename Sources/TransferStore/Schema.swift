/// The tables of the newest version, and the lists by which rows are written and read.
///
/// Everything is a readable column: a person may look with `sqlite3`. Moments are milliseconds since 1970 (`_ms`),
/// enums their names, yes and no are 1 and 0, header lists lines of `Name: value`.
enum Schema {
  /// "Fery": tells our databases from others' (file(1) shows it).
  static let applicationID: Int64 = 0x4665_7279

  static let sessionColumns = """
    id, app, identifier, http_proxy, https_proxy, no_proxy, certificate_file, connections_per_host, collects_results,
    is_invalidated, next_task_number, next_delivery, owes_finish_events, sends_launch_events, unused_since_ms,
    answers_challenges, tls
    """

  /// The columns of `task` that never change, then those that do.
  static let taskIdentityColumns = "id, session, number, kind"
  static let taskStateColumns = """
    state, ending, origin, is_repeatable, priority, is_discretionary, received, sent, expected, attempts, failures,
    not_before_ms, deadline_ms, finished_at_ms, constraints, urgent_seconds, asks_first
    """

  /// What belongs to the plan, yet is needed of every task at start.
  static let taskPlanColumns = "key, destination_path, part_owner"

  static let planColumns = """
    method, url, headers, secret_header_names, source_path, source_pinned_path, source_pin, source_device,
    source_inode, source_size_bytes, source_modified_ns, destination, destination_collision,
    part_path, expected_sha256, status_rule, keeps_encoding, request_timeout_ms, resource_timeout_ms, created_at_ms,
    answers_challenges, asks_before_begin, tls
    """

  static let progressColumns = """
    description, resume_validator_kind, resume_validator, resume_offset, resume_total, boot_id, response_status,
    response_headers, response_url, response_http_version, failure_code, failure_retryability, failure_domain,
    failure_number, failure_detail, failure_retry_after_seconds, cancel_cause, content_encoding, file_path, body_path,
    sha256, is_length_verified, wasted, restarts, metrics, held_since_ms, earliest_begin_ms,
    hint_to_send, hint_to_receive, question, access
    """

  static let keptPartColumns = """
    token, task, owner, app, part_path, method, url, headers, secret_header_names, destination,
    destination_collision, destination_path, expected_sha256, status_rule, keeps_encoding, resume_validator_kind,
    resume_validator, resume_offset, resume_total, received, response_status, response_headers, response_url,
    response_http_version, boot_id, kept_at_ms
    """

  static let deliveryColumns = "session, number, kind, task, queued_at_ms"

  /// `?, ?, …` for a list of columns.
  static func placeholders(_ columns: String) -> String {
    Array(repeating: "?", count: names(columns).count).joined(separator: ", ")
  }

  /// `a = ?, b = ?, …` for a list of columns.
  static func assignments(_ columns: String) -> String {
    names(columns).map { "\($0) = ?" }.joined(separator: ", ")
  }

  static func names(_ columns: String) -> [Substring] {
    columns.split { $0 == "," || $0 == " " || $0 == "\n" }
  }
}
