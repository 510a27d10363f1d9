internal import CSQLite

/// A prepared statement. Parameters are bound, and columns read, in their order: the lists in ``Schema`` say which.
@safe final class Statement {
  let sql: String
  private let connection: Connection
  private let handle: OpaquePointer?
  private var parameter: Int32 = 0
  private var column: Int32 = 0

  init(_ connection: Connection, _ sql: String) throws(StoreError) {
    self.sql = sql
    self.connection = connection
    var prepared: OpaquePointer?
    let code = unsafe sqlite3_prepare_v3(
      connection.rawHandle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
    unsafe handle = prepared
    guard code == SQLITE_OK else { throw connection.failure(code, statement: sql) }
  }

  deinit { unsafe sqlite3_finalize(handle) }

  // MARK: Running

  /// True when there is a row; after the last one the statement is ready for its next use.
  func step() throws(StoreError) -> Bool {
    column = 0
    let code = unsafe sqlite3_step(handle)
    if code == SQLITE_ROW { return true }
    let error = code == SQLITE_DONE ? nil : connection.failure(code, statement: sql)
    reset()
    if let error { throw error }
    return false
  }

  /// Runs a statement that changes rows.
  /// - Returns: how many it changed, without those of foreign keys.
  @discardableResult
  func run() throws(StoreError) -> Int {
    while try step() {}
    return Int(unsafe sqlite3_changes(connection.rawHandle))
  }

  /// Makes it ready for its next use; what was bound is kept by SQLite until it is bound anew.
  func reset() {
    unsafe sqlite3_reset(handle)
    parameter = 0
    column = 0
  }

  // MARK: Parameters

  func bind(_ value: Int64?) throws(StoreError) {
    parameter += 1
    let code =
      if let value { unsafe sqlite3_bind_int64(handle, parameter, value) } else {
        unsafe sqlite3_bind_null(handle, parameter)
      }
    try checkBinding(code)
  }

  func bind(_ value: Bool) throws(StoreError) { try bind(value ? 1 : 0) }

  func bind(_ value: String?) throws(StoreError) {
    guard var text = value else { return try bind(Int64?.none) }
    try checkBinding(text.withUTF8 { unsafe bindText($0) })
  }

  /// A text, as its bytes in UTF-8.
  func bind(utf8 bytes: [UInt8]?) throws(StoreError) {
    guard let bytes else { return try bind(Int64?.none) }
    try checkBinding(unsafe bytes.withUnsafeBufferPointer { unsafe bindText($0) })
  }

  private func bindText(_ bytes: UnsafeBufferPointer<UInt8>) -> Int32 {
    parameter += 1
    guard bytes.count <= Int(Int32.max) else { return SQLITE_TOOBIG }
    // SAFETY: SQLite copies the bytes before the call returns.
    return unsafe csqlite_bind_text_copied(handle, parameter, bytes.baseAddress, Int32(bytes.count))
  }

  /// The value of another statement's current row, whatever its type is.
  func bind(column: Int32, of row: Statement) throws(StoreError) {
    parameter += 1
    // SAFETY: an unprotected value may be bound, and is copied, before its statement is stepped again.
    try checkBinding(unsafe sqlite3_bind_value(handle, parameter, sqlite3_column_value(row.handle, column)))
  }

  private func checkBinding(_ code: Int32) throws(StoreError) {
    guard code != SQLITE_OK else { return }
    let error = connection.failure(code, statement: sql)
    reset()
    throw error
  }

  // MARK: Columns

  var columnCount: Int32 { unsafe sqlite3_column_count(handle) }

  func columnName(_ column: Int32) -> String {
    // SAFETY: a text ended by NUL that lives until the statement is prepared again; it is copied here.
    guard let name = unsafe sqlite3_column_name(handle, column) else { return "column \(column)" }
    return unsafe String(cString: name)
  }

  var columnNames: [String] { (0..<columnCount).map(columnName) }

  /// Nil unless the column holds an integer.
  func integerValue(_ column: Int32) -> Int64? {
    guard unsafe sqlite3_column_type(handle, column) == SQLITE_INTEGER else { return nil }
    return unsafe sqlite3_column_int64(handle, column)
  }

  /// The next column; nil for NULL.
  func nextInteger() throws(RowFault) -> Int64? {
    let index = column
    column += 1
    switch unsafe sqlite3_column_type(handle, index) {
    case SQLITE_INTEGER: return unsafe sqlite3_column_int64(handle, index)
    case SQLITE_NULL: return nil
    case let type: throw RowFault("\(columnName(index)) holds \(Self.name(ofType: type)), not an integer")
    }
  }

  /// The next column; nil for NULL.
  func nextText() throws(RowFault) -> String? {
    let index = column
    column += 1
    switch unsafe sqlite3_column_type(handle, index) {
    case SQLITE_TEXT:
      // Not `String(validating:as:)`: that is generic, and a start reads three texts for each of a million tasks.
      guard let text = unsafe try? UTF8Span(validating: Span(_unsafeElements: bytes(index))) else {
        throw RowFault("\(columnName(index)) is not UTF-8")
      }
      return String(copying: text)
    case SQLITE_NULL: return nil
    case let type: throw RowFault("\(columnName(index)) holds \(Self.name(ofType: type)), not text")
    }
  }

  /// The column that was read last, for messages.
  var lastColumnName: String { columnName(column - 1) }

  /// SAFETY: valid until the statement is stepped or reset; callers copy at once.
  private func bytes(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
    let start = unsafe sqlite3_column_blob(handle, column)
    let count = unsafe sqlite3_column_bytes(handle, column)
    return unsafe UnsafeBufferPointer(
      start: start?.assumingMemoryBound(to: UInt8.self), count: start == nil ? 0 : Int(count))
  }

  /// A column as an SQL literal that makes the same value again, whatever its bytes are.
  func literal(_ column: Int32, quoted: Bool = true) -> String {
    switch unsafe sqlite3_column_type(handle, column) {
    case SQLITE_NULL: return "NULL"
    case SQLITE_INTEGER: return "\(unsafe sqlite3_column_int64(handle, column))"
    case SQLITE_FLOAT: return "\(unsafe sqlite3_column_double(handle, column))"
    case SQLITE_TEXT:
      let bytes = unsafe bytes(column)
      if !quoted { return unsafe String(decoding: bytes, as: UTF8.self) }
      let hasControl = unsafe bytes.contains { $0 < 0x20 && $0 != 0x0A }
      if !hasControl, let text = unsafe String(validating: bytes, as: UTF8.self) {
        return "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
      }
      return unsafe "CAST(\(Self.hexadecimal(bytes)) AS TEXT)"
    default: return unsafe Self.hexadecimal(bytes(column))  // SQLite has five types; this is the fifth.
    }
  }

  private static func hexadecimal(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var text = Array("x'".utf8)
    for byte in unsafe Array(bytes) {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    text.append(UInt8(ascii: "'"))
    return String(decoding: text, as: UTF8.self)
  }

  private static func name(ofType type: Int32) -> String {
    switch type {
    case SQLITE_INTEGER: "an integer"
    case SQLITE_FLOAT: "a real number"
    case SQLITE_TEXT: "text"
    case SQLITE_BLOB: "a blob"
    default: "nothing"
    }
  }
}

/// Why a row cannot be read. Names the column and the rule, never the value: it may be a secret.
struct RowFault: Error, Hashable {
  var reason: String
  init(_ reason: String) { self.reason = reason }
}
