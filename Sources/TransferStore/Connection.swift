internal import CSQLite
internal import Glibc

/// One open SQLite database; used on one thread. Its statements must be gone before it is closed.
@safe final class Connection {
  let path: String
  private var handle: OpaquePointer?

  /// - Throws: `cannotOpen`, `readOnly`, `full`, `outOfMemory`.
  init(path: String) throws(StoreError) {
    self.path = path
    var opened: OpaquePointer?
    // No mutex: the store's thread is the only one that ever uses the connection.
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
    let code = unsafe sqlite3_open_v2(path, &opened, flags, nil)
    unsafe handle = opened
    guard code == SQLITE_OK else {
      let error = failure(code, statement: nil)
      close()
      throw error
    }
    unsafe sqlite3_extended_result_codes(opened, 1)
  }

  deinit { close() }

  /// The database handle for the calls of ``Statement``.
  var rawHandle: OpaquePointer? { unsafe handle }

  /// Closes the database. The last connection writes the log back into it, unless `keepsLog`.
  func close(keepsLog: Bool = false) {
    guard let open = unsafe handle else { return }
    if keepsLog { _ = unsafe csqlite_keep_log_on_close(open) }
    unsafe sqlite3_close_v2(open)
    unsafe handle = nil
  }

  /// The error for a result code, with the words of SQLite and of the system.
  func failure(_ code: Int32, statement: String?) -> StoreError {
    let result = ResultCode(rawValue: code)
    let systemError =
      result == .writeError ? unsafe csqlite_log_errno(handle) : unsafe sqlite3_system_errno(handle)
    // SAFETY: both functions return texts of SQLite's own, ended by NUL, that are copied before the next call.
    var message = unsafe handle == nil ? String(cString: sqlite3_errstr(code)) : String(cString: sqlite3_errmsg(handle))
    if [ResultCode.ioError, .cannotOpen, .full].contains(result.primary), systemError != 0 {
      unsafe message += ": \(String(cString: strerror(systemError)))"
    }
    let kind = StoreError.Kind(code: result, systemError: systemError)
    return StoreError(kind, code: result, message: "\(path): \(message)", statement: statement)
  }

  /// Runs a statement that returns no row of interest and is not worth keeping.
  func execute(_ sql: String) throws(StoreError) {
    let statement = try Statement(self, sql)
    while try statement.step() {}
  }

  /// The first column of the first row as an integer.
  func integer(_ sql: String) throws(StoreError) -> Int64? {
    let statement = try Statement(self, sql)
    return try statement.step() ? statement.integerValue(0) : nil
  }

  /// The first column of the first row as text, repaired where it is not UTF-8.
  func text(_ sql: String) throws(StoreError) -> String? {
    let statement = try Statement(self, sql)
    return try statement.step() ? statement.literal(0, quoted: false) : nil
  }

  /// Runs `body` in one write transaction: all of it, or nothing.
  func transaction<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
    try execute("BEGIN IMMEDIATE")
    do throws(StoreError) {
      let result = try body()
      try execute("COMMIT")
      return result
    } catch {
      rollBack()
      throw error
    }
  }

  /// Ends an open transaction without a trace. Some errors (a full disk) have ended it already.
  func rollBack() {
    guard unsafe sqlite3_get_autocommit(handle) == 0 else { return }
    _ = unsafe sqlite3_exec(handle, "ROLLBACK", nil, nil, nil)
  }

  /// Rows changed since the connection was opened; wraps around.
  var totalChanges: Int32 { unsafe sqlite3_total_changes(handle) }
}
