import CurlEngine
import Glibc
import LinuxSystem
import TransferCore

/// Turns complete part files into results, in batches: all are checked, writeback starts on all, they are synced side
/// by side, each is placed, and then each folder is synced once. Durability costs a few waits for the batch in place of
/// one for each file.
enum Finalizing {
  /// Results in one batch: bounds how long the first waits for the last.
  static let batchLimit = 256

  /// - Parameter keptRoom: what decoding leaves free on the filesystem of the results.
  static func run(_ orders: [FinalizeOrder], leaving keptRoom: KeptRoom? = nil) -> [(TaskID, FinalizeOutcome)] {
    var outcomes: [(TaskID, FinalizeOutcome)] = []
    var checked: [Checked] = []
    for order in orders {
      do throws(FileJobs.FileFailure) {
        checked.append(try check(order, keptRoom))
      } catch {
        outcomes.append((order.task, .failed(error.failure)))
      }
    }
    for item in checked { Files.startWriteback(item.descriptor) }
    let failures = SideBySide.map(checked.map(\.descriptor), sync)
    var folders: [String] = []
    for (item, failure) in zip(checked, failures) {
      do throws(FileJobs.FileFailure) {
        if let failure { throw failure }
        let path = try place(item)
        let folder = Files.parent(of: path)
        if !folders.contains(folder) { folders.append(folder) }
        outcomes.append((item.order.task, .placed(path: path, bytes: item.bytes, sha256: item.digest)))
      } catch {
        item.discardDecoded()
        outcomes.append((item.order.task, .failed(error.failure)))
      }
      close(item.descriptor)
    }
    let kept = SideBySide.map(folders) { folder -> SystemError? in
      do throws(SystemError) {
        try FaultPoint.reach("folder.fsync")
        try Files.syncDirectory(folder)
        return nil
      } catch {
        return error
      }
    }
    for case (let folder, let error?) in zip(folders, kept) {
      // A name that may not survive a power cut is not a result yet.
      let failure = placementFailure(error)
      outcomes = outcomes.map { outcome in
        guard case .placed(let path, _, _) = outcome.1, Files.parent(of: path) == folder else { return outcome }
        return (outcome.0, .failed(failure))
      }
    }
    return outcomes
  }

  private struct Checked {
    var order: FinalizeOrder
    var path: String
    var descriptor: Int32
    var bytes: Int64
    /// SHA-256 in hex, where one was required.
    var digest: String?

    /// What was decoded is no result: the next try, or what the part file is kept for, begins with the part file. What
    /// a destination shows is left to prove that it was placed.
    func discardDecoded() {
      if path != order.partPath, !Files.hasSecondName(path) { try? Files.remove(path) }
    }
  }

  /// Length, encoding, digest: nothing wrong gets further than here.
  private static func check(_ order: FinalizeOrder, _ keptRoom: KeptRoom?) throws(FileJobs.FileFailure) -> Checked {
    var content = Checked(
      order: order, path: order.partPath, descriptor: try openChecked(order.partPath, held: order.held).take(),
      bytes: order.held)
    if let placed = decodedAndPlaced(order) {
      close(content.descriptor)
      content = placed
    } else if let coding = order.contentEncoding, order.held > 0 {
      let encoded = content.descriptor
      defer { close(encoded) }
      let decoded = try decode(content, coding, keptRoom)
      content = Checked(
        order: order, path: order.partPath + FileJobs.decodedSuffix, descriptor: decoded.descriptor,
        bytes: decoded.bytes)
    }
    if let expected = order.expectedSHA256 {
      do throws(FileJobs.FileFailure) {
        content.digest = try matching(expected, content.descriptor)
      } catch {
        close(content.descriptor)
        content.discardDecoded()
        throw error
      }
    }
    return content
  }

  private static func matching(_ expected: String, _ descriptor: Int32) throws(FileJobs.FileFailure) -> String {
    do throws(SystemError) {
      try FaultPoint.reach("finalize.digest")
    } catch {
      throw FileJobs.FileFailure(DigestFailure.unreadable(error.number).failure)
    }
    let found: String
    do throws(DigestFailure) {
      found = try StreamingDigest.sha256(ofFileDescriptor: descriptor).hex
    } catch {
      throw FileJobs.FileFailure(error.failure)
    }
    guard found == expected else {
      throw FileJobs.FileFailure(
        TransferFailure(
          .digestMismatch, .permanent, detail: "The content's SHA-256 is \(found), not \(expected) as required."))
    }
    return found
  }

  private static func openChecked(_ path: String, held: Int64) throws(FileJobs.FileFailure) -> OwnedDescriptor {
    do throws(SystemError) {
      let file = try OwnedDescriptor.open(path, .readWrite, followingSymlinks: false)
      let size = try Files.identity(descriptor: file.raw).sizeBytes
      guard size == held else {
        throw SystemError(EIO, operation: "check", path: path, detail: "it has \(size) bytes in place of \(held)")
      }
      return file
    } catch {
      throw FileJobs.FileFailure(
        TransferFailure(
          .partFileLost, .transient, domain: "errno", number: Int(error.number),
          detail: "The collected bytes are not what they were: \(error)."))
    }
  }

  /// What a daemon that died after placing it had decoded, checked and synced: its user can see it by now. Its coding
  /// is not asked for, because the record of a small body never knew it.
  private static func decodedAndPlaced(_ order: FinalizeOrder) -> Checked? {
    let path = order.partPath + FileJobs.decodedSuffix
    guard order.destination != .managed, Files.hasSecondName(path),
      let placed = try? OwnedDescriptor.open(path, .readWrite, followingSymlinks: false),
      let identity = try? Files.identity(descriptor: placed.raw)
    else { return nil }
    return Checked(order: order, path: path, descriptor: placed.take(), bytes: identity.sizeBytes)
  }

  private static func decode(
    _ content: Checked, _ coding: String, _ keptRoom: KeptRoom?
  ) throws(FileJobs.FileFailure) -> (descriptor: Int32, bytes: Int64) {
    let path = content.order.partPath + FileJobs.decodedSuffix
    let output: OwnedDescriptor
    do throws(SystemError) {
      try Files.remove(path)
      output = try Files.createPrivate(path)
    } catch {
      throw FileJobs.FileFailure(FileJobs.partFailure(error))
    }
    do throws(DecodingFailure) {
      let bytes = try ContentDecoder.decode(
        coding, from: content.descriptor, to: output.raw,
        limitBytes: ContentDecoder.limitBytes(encodedBytes: content.bytes), leaving: keptRoom)
      return (output.take(), bytes)
    } catch {
      try? Files.remove(path)
      throw FileJobs.FileFailure(error.failure)
    }
  }

  /// Nil: the content is on the disk.
  @Sendable private static func sync(_ descriptor: Int32) -> FileJobs.FileFailure? {
    do throws(SystemError) {
      try FaultPoint.reach("worker.fsync")
      try Files.syncFile(descriptor)
      return nil
    } catch {
      // The kernel takes the pages that it lost for clean (fsync(2)): a second call would say that all is well.
      return FileJobs.FileFailure(
        TransferFailure(
          .partFileLost, .transient, domain: "errno", number: Int(error.number),
          detail: "The disk did not keep the collected bytes: \(error)."))
    }
  }

  private static func place(_ item: Checked) throws(FileJobs.FileFailure) -> String {
    do throws(SystemError) {
      return try named(item)
    } catch {
      throw FileJobs.FileFailure(placementFailure(error))
    }
  }

  /// Gives the content its name, and returns that.
  private static func named(_ item: Checked) throws(SystemError) -> String {
    try FaultPoint.reach("file.place")
    switch item.order.destination {
    case .managed:
      if item.path != item.order.partPath {
        try Syscall.retrying("rename", path: item.path) { unsafe rename(item.path, item.order.partPath) }
      }
      return item.order.partPath
    case .file(let path, let collision):
      // Mode as any program of the user would make it; the part file was private while it was incomplete.
      _ = fchmod(item.descriptor, 0o666 & ~(unsafe currentMask))
      do throws(FilePlacement.Refusal) {
        return try FilePlacement.link(part: item.path, as: path, policy: policy(collision))
      } catch {
        switch error {
        case .nameTaken(let path): throw SystemError(EEXIST, operation: "place", path: path)
        case .noSpace(let path, _, _): throw SystemError(ENOSPC, operation: "place", path: path)
        case .system(let error): throw error
        }
      }
    }
  }

  private static func policy(_ collision: CollisionRule) -> FilePlacement.Policy {
    switch collision {
    case .fail: .noReplace
    case .replace: .replace
    case .rename: .rename
    }
  }

  /// umask(2) can only be read by setting it; done once, before any thread runs (see `Program`).
  nonisolated(unsafe) static var currentMask: mode_t = 0o077

  private static func placementFailure(_ error: SystemError) -> TransferFailure {
    switch error.number {
    case ENOSPC, EDQUOT: FileJobs.partFailure(error)
    case EEXIST:
      TransferFailure(
        .fileExists, .permanent, domain: "errno", number: Int(EEXIST),
        detail:
          "The destination \(error.path ?? "") was made by somebody else meanwhile; what was fetched stands beside "
          + "it until the task is removed.")
    default:
      TransferFailure(
        .fileWriteFailed, .transient, domain: "errno", number: Int(error.number),
        detail: "The result could not be made durable: \(error).")
    }
  }
}
