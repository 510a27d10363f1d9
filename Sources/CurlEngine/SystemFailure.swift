import Glibc
import TransferCore

enum ErrorNumber {
  static let networkUnreachable = ENETUNREACH
  static let networkDown = ENETDOWN
  static let timedOut = ETIMEDOUT
  static let cancelled = ECANCELED
}

/// Errors of file calls as failures.
enum SystemFailure {
  static func writing(_ error: Int32) -> TransferFailure {
    switch error {
    case ENOSPC, EDQUOT:
      TransferFailure(
        .noSpace, .transient, domain: "errno", number: Int(error), detail: "No space for the part file: \(text(error))."
      )
    case EFBIG:
      TransferFailure(
        .fileWriteFailed, .permanent, domain: "errno", number: Int(error),
        detail: "The filesystem does not take a file this large.")
    default:
      TransferFailure(
        .fileWriteFailed, .transient, domain: "errno", number: Int(error),
        detail: "Writing the part file failed: \(text(error)).")
    }
  }

  /// After a failed fsync(2) the kernel takes the lost pages for clean, and a second one says that all is well: what
  /// the file holds cannot be trusted any more. A full network filesystem says so here too.
  static func syncing(_ error: Int32) -> TransferFailure {
    TransferFailure(
      .partFileLost, .transient, domain: "errno", number: Int(error),
      detail: "The disk did not keep the part file's bytes: \(text(error)).")
  }

  static func readingSource(_ error: Int32) -> TransferFailure {
    TransferFailure(
      .sourceUnreadable, error == EIO ? .transient : .permanent, domain: "errno", number: Int(error),
      detail: "Reading the upload's source failed: \(text(error)).")
  }

  static let streamBroken = TransferFailure(
    .sourceUnreadable, .permanent, detail: "The request's body stream failed, or was not as long as promised.")

  static let sourceChanged = TransferFailure(
    .sourceChanged, .permanent, detail: "The upload's source is not the file it was when the task was created.")

  static func text(_ error: Int32) -> String {
    // The XSI form that Swift sees: the text goes into the buffer.
    var buffer = [CChar](repeating: 0, count: 256)
    guard unsafe strerror_r(error, &buffer, buffer.count - 1) == 0 else { return "error \(error)" }
    return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
