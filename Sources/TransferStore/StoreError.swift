internal import CSQLite
internal import Glibc
package import TransferCore

/// A result code of SQLite, extended codes included; open, because later versions add some (sqlite.org/rescode.html).
package struct ResultCode: RawRepresentable, Hashable, Sendable {
  package var rawValue: Int32
  package init(rawValue: Int32) { self.rawValue = rawValue }

  /// The low byte: what every version of SQLite knows.
  package var primary: ResultCode { ResultCode(rawValue: rawValue & 0xFF) }

  package static let ok = ResultCode(rawValue: SQLITE_OK)
  package static let error = ResultCode(rawValue: SQLITE_ERROR)
  package static let busy = ResultCode(rawValue: SQLITE_BUSY)
  package static let locked = ResultCode(rawValue: SQLITE_LOCKED)
  package static let outOfMemory = ResultCode(rawValue: SQLITE_NOMEM)
  package static let readOnly = ResultCode(rawValue: SQLITE_READONLY)
  package static let ioError = ResultCode(rawValue: SQLITE_IOERR)
  package static let corrupt = ResultCode(rawValue: SQLITE_CORRUPT)
  package static let full = ResultCode(rawValue: SQLITE_FULL)
  package static let cannotOpen = ResultCode(rawValue: SQLITE_CANTOPEN)
  package static let permission = ResultCode(rawValue: SQLITE_PERM)
  package static let constraint = ResultCode(rawValue: SQLITE_CONSTRAINT)
  package static let tooBig = ResultCode(rawValue: SQLITE_TOOBIG)
  package static let notADatabase = ResultCode(rawValue: SQLITE_NOTADB)
  package static let writeError = ResultCode(rawValue: SQLITE_IOERR | (3 << 8))
  package static let uniqueConstraint = ResultCode(rawValue: SQLITE_CONSTRAINT | (8 << 8))
  package static let primaryKeyConstraint = ResultCode(rawValue: SQLITE_CONSTRAINT | (6 << 8))
  package static let foreignKeyConstraint = ResultCode(rawValue: SQLITE_CONSTRAINT | (3 << 8))
}

/// Why the store could not do what it was asked. When ``TransferStore/apply(_:)`` throws, nothing was changed.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What a caller can do about it.
  package enum Kind: String, CaseIterable, Hashable, Sendable {
    /// No room: disk, quota or file size limit. It passes when there is room again.
    case full
    /// The device or the file system failed.
    case ioError
    /// The file is not, or no longer, a sound database.
    case corrupt
    /// Another program holds the database longer than the busy timeout.
    case busy
    /// The file cannot be written.
    case readOnly
    /// The file cannot be opened.
    case cannotOpen
    case outOfMemory
    /// A rule of the schema forbids it: a key or number used twice, a session that does not exist.
    case constraint
    /// A value of the change that the store cannot hold: a negative count, a header with a line end.
    case invalidValue
    /// A change of something that is not stored.
    case missingRow
    /// One row cannot be read; `row` says which.
    case unreadableRow
    /// The database belongs to another program.
    case foreignDatabase
    /// The database was written by a newer version of this program.
    case newerDatabase
    /// A fault of this program.
    case misuse
  }

  package var kind: Kind
  /// The extended code; `ok` where SQLite reported nothing.
  package var code: ResultCode
  /// One sentence: the cause and, where there is one, the remedy. Without values of rows.
  package var message: String
  /// The SQL with placeholders, never with its arguments.
  package var statement: String?
  /// Set for `unreadableRow`.
  package var row: QuarantinedRow?

  package init(
    _ kind: Kind, code: ResultCode = .ok, message: String, statement: String? = nil, row: QuarantinedRow? = nil
  ) {
    self.kind = kind
    self.code = code
    self.message = message
    self.statement = statement
    self.row = row
  }

  package var description: String {
    var text = "store: \(message)"
    if code != .ok { text += " (\(kind.rawValue), SQLite code \(code.rawValue))" }
    return text
  }

  static func unreadable(_ row: QuarantinedRow) -> StoreError {
    StoreError(.unreadableRow, message: "row \(row.rowID) of \(row.table) cannot be read: \(row.reason)", row: row)
  }
}

extension StoreError.Kind {
  /// - Parameter systemError: the `errno` that SQLite kept for the failure, 0 for none.
  init(code: ResultCode, systemError: Int32) {
    switch code.primary {
    case .full: self = .full
    case .ioError, .cannotOpen:
      // SQLite reports ENOSPC as full only for plain writes; the shared-memory file and limits come as I/O errors.
      if [ENOSPC, EDQUOT, EFBIG].contains(systemError) {
        self = .full
      } else {
        self = code.primary == .ioError ? .ioError : .cannotOpen
      }
    case .corrupt, .notADatabase: self = .corrupt
    case .busy, .locked: self = .busy
    case .readOnly: self = .readOnly
    case .permission: self = .cannotOpen
    case .outOfMemory: self = .outOfMemory
    case .constraint: self = .constraint
    case .tooBig: self = .invalidValue
    default: self = .misuse  // Result codes are an open set.
    }
  }
}
